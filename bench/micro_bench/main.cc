// Micro-benchmarks of the steps around the layers; run by bench/run.
#include <benchmark/benchmark.h>

BENCHMARK_MAIN();
