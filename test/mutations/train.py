"""Bugs in how a run is trained, tested, saved and ended, as exchange.py has them."""

TERMINATION, END = "src/cluster/termination_detector.cc", "src/train/run_finalizer.cc"
LEAVE, QUIESCENCE = "src/cluster/graceful_leave.cc", "src/cluster/quiescence_wait.cc"
DETECTOR = "src/cluster/failure_detector.cc"
DUTY, WRITER = "src/cluster/snapshot_duty.cc", "src/train/snapshot_writer.cc"
TAKEOVER = "src/cluster/shard_takeover.cc"
EVALUATION, SHARES, TESTER = (f"src/train/evaluation/{name}.cc" for name in (
    "distributed_evaluation", "evaluation_shards", "tester"))
WORKER, RUN = "src/train/solver_worker.cc", "src/train/train_run.cc"
LR_POLICY = "src/solver/lr_policy.h"
SETUP, TRAINING = "src/train/run_setup.cc", "src/train/cluster/cluster_training.cc"
COMPLETION = "src/train/run_completion.cc"
SOLVER, HOGWILD = "src/solver/solver.cc", "src/strategy/hogwild.h"
REPORTER = "src/train/reporter.cc"
FAILURES, SCORES = "src/cluster/peer_failures.cc", "src/train/evaluation/score_check.cc"
VIEW, PLAIN = "src/train/net_view.cc", "src/nn/plain_values.cc"

MUTANTS = [
    # ---- The end of a run ---------------------------------------------------
    ("minus-zero-keeps-nodes-apart", [(TERMINATION, """\
    for (float& weight : piece) weight += 0.0f;
""", """\
""")]),
    ("who-was-stopped-counts-as-ended", [(TERMINATION, """\
    if (found == statements_.end() || found->second.priority() > 0 ||
        found->second.has_iteration_ns()) {
""", """\
    if (found == statements_.end() || found->second.has_iteration_ns()) {
""")]),
    ("what-a-codec-holds-back-is-never-sent", [(TERMINATION, """\
  if (state != State::kTraining) peers_.Flush();
""", "")]),
    ("two-stopped-nodes-save", [(TERMINATION, """\
    if (priority > own || (priority == own && node < peers_.self()))
""", """\
    if (priority > own)
""")]),
    ("saves-though-another-trains-on", [(TERMINATION, """\
    if (found == statements_.end() || found->second.priority() == 0)
""", """\
    if (found == statements_.end())
""")]),
    ("waits-for-a-dead-node-that-others-speak-of", [(TERMINATION, """\
  std::erase_if(reachable_, [&](NodeId node) {
    return std::binary_search(unresponsive.begin(), unresponsive.end(), node);
  });
""", "")]),
    ("gives-up-slow-iterations", [(TERMINATION, """\
    if (found != statements_.end()) longest = std::max(longest, found->second.iteration_ns());
""", "")]),
    ("waits-for-weights-that-move-for-ever", [(TERMINATION, """\
  const bool in_time = now - still < timeout &&
                       now - moved_ns_ < std::max(timeout, kOutstandingNs) &&
                       now - all_ended_ns_ < kMoveNs;
""", """\
  const bool in_time = now - still < timeout &&
                       now - moved_ns_ < std::max(timeout, kOutstandingNs);
""")]),
    ("waits-for-weights-that-are-outstanding-for-ever", [(TERMINATION, """\
  const bool in_time = now - still < timeout &&
                       now - moved_ns_ < std::max(timeout, kOutstandingNs) &&
                       now - all_ended_ns_ < kMoveNs;
""", """\
  const bool in_time = now - still < timeout && now - all_ended_ns_ < kMoveNs;
""")]),
    ("gives-up-slow-passes-over-the-weights", [(TERMINATION, """\
  return kStillNs + kPasses * kNsPerSecond * seconds;
""", """\
  return kStillNs + 0 * seconds;
""")]),
    ("ends-with-a-diff-in-flight", [(TERMINATION, """\
    return may_move ? State::kInFlight : State::kQuiescent;
""", """\
    return State::kQuiescent;
""")]),
    ("gives-up-progress-that-is-outstanding", [(TERMINATION, """\
  if (!Outstanding().empty()) unsettled_ns_ = now;
""", "")]),
    ("knows-only-the-peers-on-its-segments", [(TERMINATION, """\
    return found == statements_.end() ? std::string() : found->second.responsive();
""", """\
    return node != peers_.self() ? std::string() : found->second.responsive();
""")]),
    ("publishes-all-changes-at-once", [(TERMINATION, """\
  if (bytes == published_ ||
      (!at_once && !published_.empty() && now - published_ns_ < kPublishIntervalNs))
""", """\
  if (bytes == published_)
""")]),
    ("equal-weights-are-told-later", [(TERMINATION, """\
  if (same_) Publish(true);
""", "")]),
    ("who-has-just-joined-ends-alone", [(TERMINATION, """\
  if (reachable_.size() < peers_.members() && now - begin_ns_ < kKnowPeersNs) return State::kInFlight;
""", "")]),
    ("ends-with-weights-that-changed-meanwhile", [(QUIESCENCE, """\
      if (termination_.WithWeights(checksum_) == termination_.reachable()) return Result::kQuiescent;
      break;
""", """\
      return Result::kQuiescent;
""")]),
    ("replicas-that-are-apart-are-no-failure", [(QUIESCENCE, """\
      failure_ = DivergedText();
""", "")]),
    ("what-is-saved-is-tested-only-if-a-test-is-due", [(END, """\
  tests_weights_ = !parts_.tester->empty();
""", """\
  tests_weights_ = parts_.tester->Due(iteration);
""")]),
    ("a-read-that-was-cut-short-is-saved", [("src/cluster/merged_weights.cc", """\
  if (!cluster_.ReadMerged(merged_->data(), stop)) return false;
""", """\
  cluster_.ReadMerged(merged_->data(), stop);
""")]),
    ("a-snapshot-that-was-cut-short-counts-as-written", [(WORKER, """\
  if (run_.duty != nullptr) run_.duty->ExpectSnapshot(iteration);
""", "")]),
    ("a-peer-counts-for-two-seconds-whatever-its-timeout", [(DETECTOR, """\
      const int64_t timeout_ns = net.peer_timeout_ns();
""", """\
      const int64_t timeout_ns = 2'000'000'000;
""")]),
    ("a-peer-that-has-left-is-unresponsive", [(DETECTOR, """\
  return found != ends.end() && found->second.gone();
""", """\
  return false;
""")]),
    ("the-finder-ends-before-others-know-that-the-schedule-is-too-short", [(TERMINATION, """\
  if (peers_.all_acked()) return true;
  const std::map<NodeId, RunEnd>& ends = ReadEnds();
""", """\
  if (true) return true;
  const std::map<NodeId, RunEnd>& ends = ReadEnds();
""")]),
    ("displays-that-wait-too-long-come-out-of-order", [(REPORTER, """\
  while (!waiting_.empty() && waiting_.begin()->first <= earliest) {
""", """\
  while (!waiting_.empty() && (waiting_.size() >= kMaxWaiting ||
                               waiting_.begin()->first <= earliest)) {
""")]),
    ("a-peer-that-has-just-died-may-save", [(DETECTOR, """\
    if (recency == Recency::kLately && now - activity.last_ns >= LatelyNs(net)) continue;
""", """\
    if (recency == Recency::kLately && now - activity.last_ns >= net.peer_timeout_ns()) continue;
""")]),
    ("every-node-saves-the-model-at-the-end", [(END, """\
  if (!std::exchange(saved_, true)) parts_.save(frozen_->data(), false);
""", """\
  if (!std::exchange(saved_, true)) parts_.save(frozen_->data(), true);
""")]),
    ("who-follows-keeps-no-part-of-the-end", [(END, """\
  if (!std::exchange(saved_, true)) parts_.save(frozen_->data(), false);
""", """\
  saved_ = true;
""")]),
    ("leaves-before-the-last-results-are-published", [(END, """\
    if (tests_.empty()) return false;
""", "")]),

    # ---- Leaving ------------------------------------------------------------
    ("leaves-those-that-depend-on-it", [(LEAVE, """\
  if (!stopped()) return peers_.has_dependents() && !HasTimedOut(now, kFinishNs);
""", """\
  if (!stopped()) return false;
""")]),
    ("who-leaves-early-waits-for-the-others", [(LEAVE, """\
  if (peers_.alone() || reason_ == LeaveReason::kEarly) return false;
""", """\
  if (peers_.alone()) return false;
""")]),
    ("a-stopped-leader-gives-the-others-no-turn", [(LEAVE, """\
  return peers_.has_dependents() && now < AfterSignal(kTurnNs, kMinTurnNs);
""", """\
  return false;
""")]),
    ("the-last-one-answers-nobody", [(LEAVE, """\
  if (!last_ || peers_.idle()) return true;
""", """\
  return true;
""")]),
    ("who-saves-says-that-it-has-gone", [(LEAVE, """\
  if (stopped() && !last) termination_->PublishGone();
""", """\
  if (stopped()) termination_->PublishGone();
""")]),
    ("a-hurried-leave-is-not-published", [(LEAVE, """\
  timed_out_ = synced && !peers_.delivered() &&
               (reason_ != LeaveReason::kEnd || !termination_->same());
""", """\
  timed_out_ = synced && !peers_.delivered() && stopped() && !termination_->same();
""")]),
    ("goes-before-the-others-are-all_acked", [(LEAVE, """\
      Enter(stopped() ? Phase::kLeaving : Phase::kPublishing, now);
""", """\
      Enter(Phase::kLeaving, now);
""")]),
    ("long-iterations-leave-no-time-to-hand-over", [(LEAVE, """\
  return signal ? std::max(*signal + ns, begin_ns_ + least_ns) : INT64_MAX;
""", """\
  return signal ? *signal + ns : INT64_MAX;
""")]),

    # ---- Snapshots ----------------------------------------------------------
    ("a-snapshot-is-made-up-for-though-it-was-written", [(DUTY, """\
    Clear(written.iteration());
""", """\
    if (written.iteration() < 0) Clear(written.iteration());
""")]),
    ("who-does-not-lead-makes-up-for-a-snapshot", [(DUTY, """\
  return is_leader && due_ > 0;
""", """\
  return due_ > 0;
""")]),
    ("an-older-snapshot-settles-a-newer-one", [(DUTY, """\
  if (iteration >= due_) due_ = 0;
""", """\
  due_ = 0;
""")]),
    ("a-snapshot-that-was-made-up-for-is-still-due", [(DUTY, """\
  std::lock_guard lock(mutex_);
  Clear(iteration);
""", "")]),
    ("what-was-written-is-written-again", [(WRITER, """\
    job->model = false;
""", "")]),
    ("a-snapshot-is-not-published", [(WRITER, """\
    wrote_model_(snapshot.iteration, paths.state);
""", "")]),
    ("an-older-snapshot-is-kept-for-a-newer-one", [(WRITER, """\
  if (job.snapshot.iteration > kept_->snapshot.iteration) std::swap(*kept_, job);
""", "")]),
    ("a-full-disk-is-tried-all-the-time", [(WRITER, """\
  retry_ns_ = clock_.NowNs() + pause_ns;
""", """\
  retry_ns_ = clock_.NowNs();
""")]),
    ("pauses-stay-long-after-a-success", [(WRITER, """\
  pause_ns_ = kRetryNs;
}
""", "}\n")]),
    ("what-is-kept-is-forgotten-at-the-end", [(WRITER, """\
  if (last) job = JobOf(std::move(*last));
""", """\
  job.reset();
  if (last) job = JobOf(std::move(*last));
""")]),

    # ---- Data of nodes that are gone ----------------------------------------
    ("a-node-that-only-others-reach-is-gone", [(TAKEOVER, """\
       ReachableNodes(peers_.self(), "", [&](NodeId of) { return responsive_of[of]; })) {
""", """\
       NodesOf(responsive_of[peers_.self()])) {
""")]),
    ("takes-all-data-after-it-stood-still", [(TAKEOVER, """\
    if (stood_still && !absent_[node]) present_ns_[node] = std::max(present_ns_[node], now);
""", "")]),
    ("takes-the-data-of-those-that-still-start", [(TAKEOVER, """\
      present_ns_(readers_.size(), clock->NowNs() + kStartNs - kMissingNs),
""", """\
      present_ns_(readers_.size(), clock->NowNs()),
""")]),
    ("takes-the-shard-of-the-nodes-number", [(TAKEOVER, """\
    if (absent_[node]) shards.push_back(readers_[node].shard);
""", """\
    if (absent_[node]) shards.push_back(node);
""")]),

    # ---- Tests that nodes share ---------------------------------------------
    ("some-batches-are-nobodys", [(SHARES, """\
    return static_cast<int>(static_cast<uint64_t>(batches) * i / n);
""", """\
    return static_cast<int>(static_cast<uint64_t>(batches) / n * i);
""")]),
    ("who-is-gone-keeps-its-part-of-the-test", [(SHARES, """\
    if (node != self && share.test() >= test - 2) nodes.push_back(node);
""", """\
    if (node != self) nodes.push_back(node);
""")]),
    ("batches-count-twice", [(SHARES, """\
    if (part->first() < end) continue;
""", "")]),
    ("parts-of-another-test-count", [(SHARES, """\
    if (share.test() != test || net >= share.net_size()) continue;
""", """\
    if (net >= share.net_size()) continue;
""")]),
    ("parts-of-other-weights-count", [(EVALUATION, """\
    std::erase_if(shares, [&](const auto& each) { return each.second.weights() != *weights_; });
""", "")]),
    ("who-comes-to-lead-logs-no-open-test", [(EVALUATION, """\
  if (Logs()) return FinishLocked();
""", """\
  if (led_) return FinishLocked();
""")]),
    ("tests-are-of-live-weights", [(TESTER, """\
  refresh_ = std::move(refresh);
""", "")]),
    ("the-last-test-is-of-refreshed-weights", [(TESTER, """\
  refresh_ = std::move(refresh);
""", """\
  if (refresh) refresh_ = std::move(refresh);
""")]),
    ("a-share-of-a-test-is-of-older-weights", [(EVALUATION, """\
  tester_.RefreshWeights(stop_);
""", "")]),
    ("snapshots-are-of-live-weights", [(WORKER, """\
      [&] { snapshot = StartSnapshot(net, iteration, true, with_diff, run_.merged->data()); });
""", """\
      [&] { snapshot = StartSnapshot(net, iteration, true, with_diff, run_.weights.data()); });
""")]),

    # ---- Failures -----------------------------------------------------------
    ("a-failure-is-not-published", [(RUN, """\
        cluster_->session().PublishFailed(std::current_exception(), true);
""", "        {}\n"), (TRAINING, """\
  if (errors_.failed()) return PublishFailed();
""", "")]),
    ("a-failure-is-logged-again-and-again", [(FAILURES, """\
  return incarnation == known->second.incarnation && !known->second.failed;
""", """\
  return incarnation == known->second.incarnation;
""")]),
    ("a-failure-is-never-forgotten", [(FAILURES, """\
      endings_[gossip.node] = {gossip.incarnation, false, false};
""", """\
      (void)gossip;
""")]),
    ("a-stop-takes-a-failure-back", [(FAILURES, """\
  return end.has_weights() && end.priority() == 0 && !end.has_iteration_ns();
""", """\
  return end.priority() == 0 && !end.has_iteration_ns();
""")]),
    ("failures-are-not-reported-to-those-that-join-later", [(FAILURES, """\
      endings_[node] = {peer.incarnation(), true, true};
""", """\
      continue;
""")]),
    ("a-node-that-reports-a-failure-appears-to-have-ended", [(TERMINATION, """\
  if (!ended_ && !own_.has_iteration_ns()) own_.set_iteration_ns(0);
""", "")]),
    ("any-failure-spoils-the-model", [(FAILURES, """\
    if (ending.not_finite) nodes.emplace_back(node, ending.incarnation);
""", """\
    nodes.emplace_back(node, ending.incarnation);
""")]),
    ("a-fall-of-the-accuracy-is-no-failure", [(SCORES, """\
         1 - last.mean >= kErrorFactor * (1 - before.mean);
""", """\
         1 - last.mean >= 100 * kErrorFactor * (1 - before.mean);
""")]),
    ("waits-for-parts-for-ever", [(EVALUATION, """\
  late_ns_ = now + kTimeoutNs + 3 * (now - begin);
""", """\
  late_ns_ = INT64_MAX;
""")]),
    ("the-last-results-are-not-published", [(EVALUATION, """\
  if (weights_) PublishCombined(all);
""", "")]),
    ("all-nodes-test-the-first-batches", [(TESTER, """\
  if (next_batch_[net] != batch) data_.Seek(TestScope(net), batch);
""", "")]),

    # ---- Solvers ------------------------------------------------------------
    ("solvers-write-without-the-lock", [(HOGWILD, """\
  void Prepare(UpdateRule* rule) override { rule->LockWith(&holder_); }
""", "")]),
    ("a-strategy-keeps-its-solver-registered", [("src/strategy/hogwild.cc", """\
HogwildStrategy::~HogwildStrategy() { clock_.ReleaseSolver(slot_); }
""", """\
HogwildStrategy::~HogwildStrategy() = default;
""")]),
    ("the-first-stop-has-the-time-of-the-last", [("src/train/run_control.cc", """\
  if (command == RunCommand::kStop && !stopped_ns_) stopped_ns_ = clock_.NowNs();
""", """\
  if (command == RunCommand::kStop) stopped_ns_ = clock_.NowNs();
""")]),
    ("momentum-is-not-resumed", [(WORKER, """\
  if (run_.resume) solver_->Restore(*run_.resume, step_ ? step_->history() : index_);
""", "")]),
    ("a-loss-is-the-sum-of-its-passes", [(SOLVER, """\
  result.loss /= static_cast<float>(passes);
""", "")]),
    ("a-loss-that-is-not-finite-reaches-the-weights", [(SOLVER, """\
    if (!std::isfinite(result.loss)) {
""", """\
    if (std::isnan(result.loss) && passes > 1) {
""")]),
    ("every-pass-is-on-the-same-random-numbers", [(SOLVER, """\
    const uint64_t number = static_cast<uint64_t>(iteration) * passes + pass;
""", """\
    const uint64_t number = static_cast<uint64_t>(iteration);
""")]),
    ("gradients-of-the-iteration-before-stay", [(SOLVER, """\
  net_->ClearGradients();
""", "")]),
    ("a-requested-snapshot-is-taken-again-and-again", [(WORKER, """\
  if (!run_.requests.TakeSnapshot()) return false;
""", """\
  if (!run_.requests.TakeSnapshot()) return false;
  run_.requests.Apply(RunCommand::kSnapshot);
""")]),
    ("a-pause-is-not-kept", [(WORKER, """\
  return step_ == nullptr || (step_->leads_process() && step_->merged());
""", """\
  return false;
""")]),
    ("a-learning-rate-that-is-set-does-not-count", [(LR_POLICY, """\
    const float rate = replacement > 0 ? replacement : RateOfFile(iteration);
""", """\
    const float rate = RateOfFile(iteration);
""")]),
    ("no-solver-tells-how-long-it-takes", [(WORKER, """\
      CountTime(begin_ns);
      if (run_.iteration_seconds
""", """\
      if (run_.iteration_seconds
""")]),
    ("a-seed-is-not-resumed", [(SETUP, """\
  if (resume->state.has_seed()) config.seed = resume->state.seed();
""", "")]),
    ("every-process-saves-the-end", [(COMPLETION, """\
  } else if (LastProcess() && param.snapshot_after_train()) {
""", """\
  } else if (param.snapshot_after_train()) {
""")]),

    # ---- What a run tells ---------------------------------------------------
    ("displays-the-last-loss-alone", [(REPORTER, """\
    Display(iteration, losses_.Mean(), step.rate, net, &report);
""", """\
    Display(iteration, step.loss, step.rate, net, &report);
""")]),
    ("counts-iterations-from-the-start-in-each-line", [(REPORTER, """\
  displayed_done_ = done_;
""", "")]),
    ("nothing-is-displayed-for-other-nodes-iterations", [(REPORTER, """\
  if (display || (interval > 0 && iteration % interval == 0)) {
""", """\
  if (interval > 0 && iteration % interval == 0) {
""")]),
    ("a-test-row-is-of-net-0", [(REPORTER, """\
  row.mutable_test()->set_net(index);
""", """\
  row.mutable_test()->set_net(0);
""")]),

    # ---- State of merge rules in snapshots -------------------------------------
    ("velocity-begins-with-zero-in-a-continued-run", [("src/strategy/synchronous_merge.cc", """\
    std::copy(stored.begin(), stored.end(), velocity_.begin());
""", "")]),
    ("a-snapshot-has-one-history-of-solvers-that-merge", [("src/solver/strategy_registry.cc", """\
  return together && !param.strategy().has_merge_rule() ? 1 : solvers;
""", """\
  return together || param.strategy().has_merge_rule() ? 1 : solvers;
""")]),
    ("elastic-solvers-continue-at-the-center", [("src/strategy/local_registration.cc", """\
    if (context.state.run != nullptr) strategy->RestoreState(context.state.OfSolver(index));
""", """\
    (void)index;
""")]),
    ("a-state-of-another-rule-is-taken", [("src/solver/run_state.cc", """\
  if (run.rule() != rule) {
""", """\
  if (run.rule().empty()) {
""")]),
    ("a-simulation-forgets-the-state-of-masters", [("src/simulate/exchange_simulation.cc", """\
      std::copy_n(state.begin() + begin, count, worker(owner).rule_state().begin() + begin);
""", """\
      (void)owner, (void)begin, (void)count;
""")]),
    ("a-simulation-forgets-masses", [("src/simulate/gossip_simulation.cc", """\
    std::copy(masses.begin(), masses.end(), peer.masses.begin());
""", "")]),

    # ---- Nets of programs ---------------------------------------------------
    ("gradients-of-a-program-add-up", [(VIEW, """\
  net_.ClearGradients();
""", "")]),
    ("values-are-in-the-order-of-memory", [(PLAIN, """\
  if (blob.layout() == Layout::kPlain) return values;
""", """\
  if (blob.count() > 0) return values;
""")]),
    ("a-net-that-becomes-plain-forgets-gradients", [("src/nn/net_plain.cc", """\
    if (!values.diff.empty()) blob.CopyDiffFromHost(values.diff.data());
""", "")]),
    ("a-net-that-becomes-plain-forgets-statistics", [("src/nn/net_plain.cc", """\
    if (!Former::IsPlain(node)) node.layer->EndIteration();
""", """\
    (void)Former::IsPlain(node);
""")]),
]

# Not in the table, because nobody could tell:
# - the end of a run is saved more than once: the collector opens an iteration only once;
# - the last test is of the live weights: they are the frozen ones, unless nodes go on that
#   did not come to the same weights in time.
