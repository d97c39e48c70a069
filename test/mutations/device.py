"""Bugs in how generic code uses devices, as exchange.py has them."""

NET, BLOB, LAYER = "src/nn/net.cc", "src/nn/blob.cc", "include/millrace/layer.h"
DATA, DUMMY = "src/nn/layers/data/batch_data_layer.cc", "src/nn/layers/data/input_layers.cc"
RULE, STREAM = "src/solver/update_rule.cc", "src/exchange/kernels/stream_executor.cc"
ORDER, STRATEGY = "src/device/write_order.h", "src/strategy/device_strategy.cc"
LINK, LINKS = "src/cluster/device_link.cc", "src/train/device_links.cc"
TRAIN, CLUSTER = "src/train/train_run.cc", "src/cluster/cluster.cc"
TESTER = "src/train/evaluation/tester.cc"
TOGETHER = "src/strategy/device_allreduce.cc"
TEAM, MERGE = "src/strategy/device_team.cc", "src/strategy/device_merge.cc"
GRAPHS = "src/solver/pass_graphs.cc"
UPLOAD, BATCHES = "src/nn/layers/data/batch_upload.cc", "src/data/batch_transform.cc"
PIXELS, CROP = "src/nn/layers/data/pixel_kernels.h", "src/data/transformer.cc"
FETCH = "src/data/prefetcher.cc"
COMPLETION, SETUP = "src/train/run_completion.cc", "src/train/run_setup.cc"
READER, PAIRS = "src/weights/weight_reader.cc", "src/strategy/pair_averaging.cc"

MUTANTS = [
    # ---- Nets ---------------------------------------------------------------
    ("a-loss-is-read-where-it-was-computed", [(NET, """\
    queue_->CopyToHost(loss_values_.get<float>() + node.loss_at[i], node.top[i]->data(),
                       node.top[i]->count() * sizeof(float));
""", """\
    std::copy_n(node.top[i]->data(), node.top[i]->count(),
                loss_values_.get<float>() + node.loss_at[i]);
""")]),
    ("the-weight-of-a-loss-is-written-to-the-device", [(NET, """\
      queue_->CopyToDevice(node.top[i]->diff(), loss_diffs_.get<float>() + node.loss_at[i],
                           node.top[i]->count() * sizeof(float));
""", """\
      std::copy_n(loss_diffs_.get<float>() + node.loss_at[i], node.top[i]->count(),
                  node.top[i]->diff());
""")]),
    ("a-loss-is-read-before-it-is-there", [(NET, """\
  loss_copied_.Synchronize();
""", "")]),
    ("outputs-are-read-before-they-are-there", [(NET, """\
  queue_->Synchronize();
  size_t count = 0;
""", """\
  size_t count = 0;
""")]),
    ("a-net-is-saved-before-its-gradients-are-there", [(NET, """\
bool with_diff) const {
  queue_->Synchronize();
  ParamsToProto(""", """\
bool with_diff) const {
  ParamsToProto(""")]),
    ("fillers-write-to-the-device", [(NET, """\
  if (blob.memory().on_host()) {
""", """\
  if (blob.count() > 0) {
""")]),
    ("gradients-are-on-the-host", [(NET, """\
                   [&] { gradients_ = Buffer(device().memory(), std::max<size_t>(bytes, 1)); });
""", """\
                   [&] { gradients_ = Buffer(HostMemory(), std::max<size_t>(bytes, 1)); });
"""), (NET, """\
    device().memory().Fill(gradients_.get(), 0, bytes);
""", """\
    HostMemory().Fill(gradients_.get(), 0, bytes);
""")]),
    ("non-finite-values-are-looked-for-on-the-device", [(NET, """\
    return HogwildReadAreFinite(blob.DataOnHost(&copy), blob.count());
""", """\
    return HogwildReadAreFinite(blob.data(), blob.count());
""")]),

    # ---- Blobs and layers ---------------------------------------------------
    ("a-new-blob-holds-anything", [(BLOB, """\
  memory.Fill((*owner)->get(), 0, bytes);
""", "")]),
    ("work-loses-its-scratch-memory", [(LAYER, """\
    queue_.Synchronize();  // work that has been enqueued may use the old memory
""", "")]),
    ("a-parameter-is-on-the-host", [(LAYER, """\
    param.blob = std::make_shared<Blob>(shape, memory());
""", """\
    param.blob = std::make_shared<Blob>(shape);
""")]),
    ("a-batch-is-overwritten-before-it-is-copied", [(DATA, """\
  copied_.Synchronize();  // the prefetcher will overwrite the batch
""", "")]),
    ("synthetic-data-is-overwritten-before-it-is-copied", [(DUMMY, """\
  copied_.Synchronize();
  for (size_t i = 0; i < top.size(); ++i) {
    const bool constant""", """\
  for (size_t i = 0; i < top.size(); ++i) {
    const bool constant""")]),

    # ---- Update rules and executors -----------------------------------------
    ("momentum-is-saved-before-it-is-there", [(RULE, """\
  queue().Synchronize();
  history->Clear();
""", """\
  history->Clear();
""")]),
    ("a-rule-ends-before-its-kernels", [(RULE, """\
    queue().Synchronize();
  } catch (const Error&) {
""", """\
  } catch (const Error&) {
""")]),
    ("a-launch-is-filled-anew-while-it-runs", [(STREAM, """\
  Guard([&] { oldest.end.Synchronize(); });
""", "")]),
    ("a-failed-device-is-used-again", [(STREAM, """\
    failure_ = error.what();
""", """\
    (void)error;
""")]),

    # ---- Solvers on devices and their links ---------------------------------
    ("changes-of-two-queues-overlap", [(ORDER, """\
      queue.Wait(last);
""", "")]),
    ("kernels-keep-to-no-order", [(STREAM, """\
    if (order_ == nullptr) {
""", """\
    if (true) {
""")]),
    ("readings-hold-changes-up", [(STREAM, """\
      order_->Read(*queue_, launch_kernel);
""", """\
      order_->Write(*queue_, launch_kernel);
""")]),
    ("changes-count-as-readings", [(STREAM, """\
  launch.writes_weights |= WritesWeights(op->kind);
""", "")]),
    ("readings-miss-changes-before-them", [(ORDER, """\
      if (writer_ != &queue) queue.Wait(last_);
    }
""", """\
    }
""")]),
    ("links-stand-behind-whole-passes", [(STRATEGY, """\
  if (weights_.order().IsChangedByOthers(rule->queue())) rule->queue().Synchronize();
""", "")]),
    ("a-solver-waits-twice-beside-nobody", [(STRATEGY, """\
  if (weights_.order().IsChangedByOthers(rule->queue())) rule->queue().Synchronize();
""", """\
  rule->queue().Synchronize();
""")]),
    ("updates-keep-to-no-order", [(STRATEGY, """\
  weights_.order().Write(
      rule->queue(), [&] {""", """\
  std::invoke([&] {""")]),
    ("a-gpu-compensates-no-delay", [(STRATEGY, """\
  return read_.get<float>();
""", """\
  return gradients;
""")]),
    ("all-parameters-have-the-rate-of-the-solver", [("src/solver/param_rows.h", """\
    own_numbers.rate *= at.lr_mult;
""", "")]),
    ("clipped-gradients-are-as-they-were", [("src/solver/param_rows.h", """\
    if (scale) own_numbers.scale = *scale;
""", "")]),
    ("the-net-does-not-wait-for-its-batch", [("src/nn/layers/data/batch_upload.cc", """\
  net_.Wait(uploaded_);
""", "")]),
    ("a-batch-overwrites-the-one-before", [("src/nn/layers/data/batch_upload.cc", """\
  queue_.Wait(taken_);
""", "")]),
    ("statistics-keep-to-no-order", [("src/strategy/device_strategy.h", """\
    weights_.order().Write(*queue, write);
""", """\
    (void)queue, write();
""")]),
    ("a-refused-launch-gives-memory-back-at-once", [(STREAM, """\
      queue_->Synchronize();
""", "")]),
    ("a-link-does-not-tell-the-others", [(LINKS, """\
    if (k != index) into_host += links_[k]->merges_into_host();
""", "")]),
    ("a-cluster-does-not-tell-the-links", [(LINKS, """\
  uint64_t into_host = config_.cluster_device == nullptr ? by_cluster : 0;
""", """\
  uint64_t into_host = 0;
""")]),
    # ---- Segments on a GPU's replica ----------------------------------------
    ("a-cluster-does-not-tell-the-link-of-its-gpu", [(LINKS, """\
  link.SetOtherMerges(into_host, is_root ? by_cluster : 0);
""", """\
  link.SetOtherMerges(into_host, 0);
""")]),
    ("the-cluster-of-a-gpu-hears-of-the-hosts-merges", [(LINKS, """\
  const uint64_t merges = is_root ? link.merges_into_device() : link.merges_into_host();
""", """\
  const uint64_t merges = link.merges_into_host();
""")]),
    ("the-gpu-of-a-cluster-joins-the-host", [(LINKS, """\
        .root = IsRoot(i) ? LinkRoot::kDevice : LinkRoot::kHost,
""", """\
        .root = LinkRoot::kHost,
""")]),
    ("other-gpus-begin-before-the-host-has-the-weights", [(LINKS, """\
        .awaits_weights = config_.cluster_device != nullptr && !IsRoot(i),
""", "")]),
    ("the-host-leaves-before-the-other-gpus", [(LINKS, """\
  if (leaving_ && All(&DeviceLink::left, false)) links_[index]->Leave();
""", """\
  if (leaving_) links_[index]->Leave();
""")]),
    ("the-hosts-weights-are-saved-for-those-of-the-gpu", [(COMPLETION, """\
    if (setup_.cluster_gpu() != nullptr) parts_.cluster->reader().Copy(setup_.weights->data());
""", "")]),
    ("a-gpus-weights-begin-as-zeros-in-a-cluster", [(SETUP, """\
  if (cluster_gpu() != nullptr) cluster_gpu()->CopyFromHost(weights->data());
""", "")]),
    ("weights-are-read-within-an-update", [(READER, """\
      weights_.order().Write(*queue_, [&] {
        queue_->CopyToHost(piece_.get(), weights_.data() + begin, count * sizeof(float));
      });
""", """\
      queue_->CopyToHost(piece_.get(), weights_.data() + begin, count * sizeof(float));
""")]),
    # ---- Averages in pairs on GPUs ------------------------------------------
    ("a-gpus-progress-is-not-averaged", [(PAIRS, """\
    Push();
    team_.Average(index_, team_.PartnerOf(index_, round_++));
""", """\
    team_.Average(index_, team_.PartnerOf(index_, round_++));
""")]),
    ("a-gpu-does-not-hear-of-averages", [(PAIRS, """\
  copy_->Write(own_.get<float>());
}

void PairAveraging::Flush() {
""", """\
}

void PairAveraging::Flush() {
""")]),
    ("a-gpus-weights-are-read-once", [(PAIRS, """\
  current_ = false;
""", "")]),
    ("a-gpu-ends-without-what-others-averaged", [(PAIRS, """\
  Push();
  Fetch();
  team_.SetRunToMean(index_, &run_holder_);
""", """\
  Push();
  team_.SetRunToMean(index_, &run_holder_);
""")]),
    ("tests-see-no-progress-of-gpus-that-average", [(PAIRS, """\
void PairAveraging::Publish() {
  Push();
""", """\
void PairAveraging::Publish() {
""")]),
    ("the-links-do-not-tell-the-cluster", [(CLUSTER, """\
    uint64_t others = outside_merges_;
""", """\
    uint64_t others = 0;
""")]),
    ("a-run-ends-before-its-gpus-have-delivered", [(TRAIN, """\
    if (links_) EndLinks();
""", "")]),
    ("a-failed-gpu-loses-the-weights", [(TRAIN, """\
    if (on_gpus && !setup_.synchronous) completion.SaveIfGpuFailed(workers);
""", "")]),
    ("solvers-begin-before-they-have-weights", [(TRAIN, """\
    while (!links_->in_sync() && !stop_.stop) {
""", """\
    while (false) {
""")]),
    ("a-gpu-tests-the-first-weights", [(TESTER, """\
  if (copy_.get()) HogwildReadToDevice(weights_, copy_, &nets_.front()->device().memory());
""", "")]),
    # ---- GPUs that step together --------------------------------------------
    ("gpus-sum-gradients-before-they-are-there", [(TEAM, """\
  if (collective_ != nullptr) sums_->Wait(compute_->Record());
""", "")]),
    ("gpus-update-before-the-sums-are-there", [(TEAM, """\
  while (!summed.Done()) {
""", """\
  while (false) {
""")]),
    ("gpus-that-step-together-begin-with-zeros", [(TEAM, """\
  for (DeviceWeights* replica : replicas_) replica->CopyFromHost(team_->weights().data());
""", "")]),
    ("a-snapshot-forgets-batches-of-other-gpus", [(TOGETHER, """\
  team().gradients().WaitForThreads();
""", "")]),
    ("the-host-gets-weights-before-the-update", [(TOGETHER, """\
  if (compute() != nullptr) compute()->Synchronize();
""", "")]),
    ("gpus-continue-without-the-history", [("src/strategy/device_allreduce.h", """\
  int history() const override { return 0; }  // all solvers have that of the one that leads
""", "")]),
    ("the-sums-of-a-failed-solver-wait-for-ever", [(TEAM, """\
  collective_->Abort();
""", "")]),
    ("the-host-is-not-told-the-first-weights", [("src/train/run_setup.cc", """\
  if (!on_host) gpu_weights[0]->CopyToHost(weights->data());
""", "")]),
    ("gpus-merge-weights-of-the-last-merge", [("src/strategy/local_merger.cc", """\
  current_ = device_ == nullptr;
""", "")]),
    ("a-gpu-does-not-get-merged-weights", [("src/strategy/local_merger.cc", """\
  if (device_ != nullptr) device_->Write(weights());
""", "")]),
    ("gpus-move-the-center-before-the-sums-are-there", [(MERGE, """\
  WaitForDeviceSums();
""", "")]),
    ("gpus-merge-and-keep-their-weights", [(MERGE, """\
    if (!has_own_weights()) compute()->Copy(weights(), center(), center_.bytes());
""", "")]),
    ("gpus-forget-the-velocity", [(MERGE, """\
  if (velocity_.bytes() > 0) restore(leader, "velocity", velocity_.get<float>());
""", "")]),
    ("gpus-forget-the-weights-of-their-own", [(MERGE, """\
  if (has_own_weights() && own != nullptr) restore(*own, "weights", weights());
""", "")]),
    ("gpus-merge-differences-of-the-last-iteration", [(MERGE, """\
  FollowCompute();
""", "")]),
    # ---- Passes as graphs ---------------------------------------------------
    ("graphs-use-memory-that-has-moved", [(GRAPHS, """\
  if (places != places_ || number != update_) {
""", """\
  if (places_.empty()) {
""")]),
    ("gradients-that-were-only-recorded-count", [(GRAPHS, """\
  if (pass == 0) net_.ClearGradients();  // nothing has been computed
""", "")]),
    ("passes-are-recorded-before-their-memory-is-there", [(GRAPHS, """\
constexpr int kIterationsBefore = 2;
""", """\
constexpr int kIterationsBefore = 0;
""")]),
    ("recorded-updates-keep-to-no-order", [(GRAPHS, """\
    points.Wait();
""", "")]),
    ("the-loss-of-a-graph-is-known-at-its-end", [(GRAPHS, """\
    points.Mark();
    for (size_t i = count; i-- > 0;) net_.BackwardNode(i);
""", """\
    for (size_t i = count; i-- > 0;) net_.BackwardNode(i);
    points.Mark();
""")]),
    ("recorded-updates-repeat-their-numbers", [(GRAPHS, """\
    update->Prepare();
""", "")]),
    ("recorded-updates-do-not-read-the-loss", [("src/solver/param_rows.h", """\
    if (!guard.IsFinite()) return;
""", "")]),
    ("passes-are-prepared-twice-after-a-refusal", [(GRAPHS, """\
    const ByCaller by_caller(prepared_);
    return {EnqueueFrom(first_)};
""", """\
    return {EnqueueFrom(first_)};
""")]),
    ("updates-of-large-weights-hold-up-exchanges", [(STRATEGY, """\
  if (weights_.size() <= kMaxWeightsBehindPasses) return this;
""", """\
  if (weights_.size() > 0) return this;
""")]),
    # ---- Images as bytes ----------------------------------------------------
    ("the-mean-is-mirrored-with-the-image", [(PIXELS, """\
means[int64_t{y} * mean_width + from]""", """\
means[int64_t{y} * mean_width + x]""")]),
    ("the-mean-of-the-whole-image-is-taken", [(PIXELS, """\
mean + (channel * mean_height + choice.y) * mean_width + choice.x""", """\
mean + channel * mean_height * mean_width""")]),
    ("bytes-are-not-mirrored", [(PIXELS, """\
in[int64_t{y} * width + from]""", """\
in[int64_t{y} * width + x]""")]),
    ("all-images-have-the-choice-of-the-first", [(PIXELS, """\
choices[row / channels]""", """\
choices[0]""")]),
    ("rows-of-narrow-crops-are-taken-as-one", [(CROP, """\
  const bool whole = !mirrors && datum.width == width;
""", """\
  const bool whole = !mirrors;
""")]),
    ("an-upload-outlives-its-batch", [(UPLOAD, """\
    uploaded_.Synchronize();
    taken_.Synchronize();
  } catch""", """\
  } catch""")]),
    ("a-batch-with-floats-is-left-as-it-is", [(FETCH, """\
  if (pixels_ == nullptr || !Write(pixels_, ready)) Write(nullptr, ready);
""", """\
  Write(pixels_, ready);
""")]),
    ("a-batch-with-floats-counts-as-bytes", [(FETCH, """\
  ready->pixels = pixels;
""", """\
  if (!ready->pixels) ready->pixels = pixels;
""")]),
    ("images-need-the-memory-of-floats", [(FETCH, """\
      batch.pixels = pixels_;
""", "")]),
    ("a-batch-of-bytes-is-kept", [(BATCHES, """\
    records_.clear();
    return true;
""", """\
    return true;
""")]),
]
