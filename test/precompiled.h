// What most tests include, compiled once by the Makefile (PCH). Files include what they use all the
// same: `make PCH=off` builds without this.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

#include "proto/topology.pb.h"
#include "src/precompiled.h"
