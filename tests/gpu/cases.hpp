// Our operators with everything their launchers need: checked against the reference.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/common/records.hpp"

namespace plumbline {

/// Every kernel on fresh random inputs, ragged shapes among them: outputs are poisoned before, so is the memory behind
/// them, which must stay as it was.
/// At least `shapes` random shapes of each kernel; `done` is told after each topic. `among`: only topics whose name has one
/// of these words; empty: all.
using TopicDone = std::function<void(const char* topic, const std::vector<Check>& checks)>;
std::vector<Check> check_kernels(unsigned seed, int shapes, const TopicDone& done = {},
                                 const std::vector<std::string>& among = {});

/// The same by topic, with at least `shapes` shapes of each kernel: fixed awkward ones first, then random ones.
std::vector<Check> check_rowwise(unsigned seed, int shapes);
std::vector<Check> check_rowwise_fp16(unsigned seed, int shapes);
std::vector<Check> check_moves(unsigned seed,
                               int shapes);  ///< rope, rope with the cache append, embedding; bf16 and fp16
std::vector<Check> check_scans(unsigned seed, int shapes);     ///< sum_all, cumsum
std::vector<Check> check_adamw(unsigned seed, int shapes);     ///< the optimizer's update
std::vector<Check> check_training(unsigned seed, int shapes);  ///< gradients row by row, loss, norm and update
std::vector<Check> check_topk(unsigned seed, int shapes);      ///< topk, softmax_topk

}  // namespace plumbline
