"""Controls the training of the character model as Platoon's LSTM example does: trains, validates,
keeps the best model, and stops when it has not become better for long.

    CONTROL=8400 ITERATIONS=100000 examples/lstm/train &
    millrace controller --addresses=127.0.0.1:8400 --script=examples/lstm/controller.py
"""
import json
import math

import millrace

TRAIN = 200     # iterations of the run between two validations
PATIENCE = 4    # validations without a better one


class Controller(millrace.Controller):
    def __init__(self):
        super().__init__()
        self.last = None          # what the worker was told
        self.best = math.inf      # perplexity
        self.worse = 0            # validations since the best one

    def next(self, worker):
        self.last = self.after(self.last, worker)
        return {"train": millrace.Instruction.train(TRAIN),
                "validate": millrace.Instruction.test(),
                "save": millrace.Instruction.snapshot(),
                "stop": millrace.Instruction.stop()}[self.last]

    def after(self, last, worker):
        if last == "train":
            return "validate"
        if last == "validate":
            perplexity = math.exp(worker.outputs["loss"])
            print(f"iteration {worker.test_iteration}: perplexity {perplexity:.3f}", flush=True)
            if perplexity < self.best:
                self.best, self.worse = perplexity, 0
                return "save"
            self.worse += 1
            if self.worse >= PATIENCE:
                print(f"stopped: no better one than {self.best:.3f}", flush=True)
                return "stop"
        if last == "save":
            print(f"best so far: {worker.snapshot}", flush=True)
        return "train"

    # With --state=FILE, a controller that is started again knows what was the best.
    def state(self):
        return json.dumps({"best": self.best, "worse": self.worse})

    def restore(self, text):
        kept = json.loads(text)
        self.best, self.worse = kept["best"], kept["worse"]
