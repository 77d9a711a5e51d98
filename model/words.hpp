// The words that flags, JSON and tables use for the model's choices: one table a choice, read and written by the same.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "arch/calibration/calibration.hpp"
#include "model/types.hpp"
#include "ops/graph/graph.hpp"
#include "ops/graph/workload.hpp"

namespace plumbline {

template <class E>
struct Word {
  std::string_view text;
  E value;
};

inline constexpr std::array<Word<KernelSet>, 3> kKernelSetWords{
    {{"own", KernelSet::own}, {"library", KernelSet::library}, {"ideal", KernelSet::ideal}}};
inline constexpr std::array<Word<ClockMode>, 2> kClockWords{
    {{"burst", ClockMode::burst}, {"steady", ClockMode::steady}}};
inline constexpr std::array<Word<DataPattern>, 4> kDataPatternWords{{{"normal", DataPattern::normal},
                                                                     {"zeros", DataPattern::zeros},
                                                                     {"ternary", DataPattern::ternary},
                                                                     {"uniform", DataPattern::uniform}}};
inline constexpr std::array<Word<Runtime>, 3> kRuntimeWords{
    {{"graph", Runtime::graph}, {"stream", Runtime::stream}, {"eager", Runtime::eager}}};
inline constexpr std::array<Word<CollectiveChoice>, 12> kCollectiveWords{
    {{"auto", CollectiveChoice::automatic},
     {"ring", CollectiveChoice::ring},
     {"tree", CollectiveChoice::tree},
     {"nvls", CollectiveChoice::nvls},
     {"nvls-tree", CollectiveChoice::nvls_tree},
     {"collnet-direct", CollectiveChoice::collnet_direct},
     {"collnet-chain", CollectiveChoice::collnet_chain},
     {"pat", CollectiveChoice::pat},
     {"hierarchical", CollectiveChoice::hierarchical},
     {"rail-aligned", CollectiveChoice::rail_aligned},
     {"one-shot", CollectiveChoice::one_shot},
     {"two-shot", CollectiveChoice::two_shot}}};
inline constexpr std::array<Word<CollectiveProtocol>, 3> kProtocolWords{
    {{"ll", CollectiveProtocol::ll}, {"ll128", CollectiveProtocol::ll128}, {"simple", CollectiveProtocol::simple}}};
inline constexpr std::array<Word<Phase>, 3> kPhaseWords{
    {{"prefill", Phase::prefill}, {"decode", Phase::decode}, {"train", Phase::train}}};
inline constexpr std::array<Word<Fusion>, 3> kFusionWords{
    {{"none", Fusion::none}, {"typical", Fusion::typical}, {"max", Fusion::max}}};
inline constexpr std::array<Word<Overlap>, 8> kOverlapWords{{{"none", Overlap::none},
                                                             {"two-batch", Overlap::two_batch},
                                                             {"sends", Overlap::sends},
                                                             {"full", Overlap::full},
                                                             {"async-tp", Overlap::async_tp},
                                                             {"replicas", Overlap::replicas},
                                                             {"iteration", Overlap::iteration},
                                                             {"experts", Overlap::experts}}};
inline constexpr std::array<Word<Pass>, 3> kPassWords{
    {{"forward", Pass::forward}, {"backward", Pass::backward}, {"update", Pass::update}}};

inline constexpr std::array<Word<Optimizer>, 9> kOptimizerWords{{{"sgd", Optimizer::sgd},
                                                                 {"sgd-plain", Optimizer::sgd_plain},
                                                                 {"adam", Optimizer::adam},
                                                                 {"adamw", Optimizer::adamw},
                                                                 {"adamw-fused", Optimizer::adamw_fused},
                                                                 {"adamw-loop", Optimizer::adamw_loop},
                                                                 {"adafactor", Optimizer::adafactor},
                                                                 {"muon", Optimizer::muon},
                                                                 {"adam8bit", Optimizer::adam8bit}}};
inline constexpr std::array<Word<Recompute>, 4> kRecomputeWords{{{"none", Recompute::none},
                                                                 {"selective", Recompute::selective},
                                                                 {"full", Recompute::full},
                                                                 {"products", Recompute::products}}};
inline constexpr std::array<Word<Clipping>, 2> kClippingWords{{{"none", Clipping::none}, {"norm", Clipping::norm}}};
inline constexpr std::array<Word<Offload>, 3> kOffloadWords{
    {{"none", Offload::none}, {"optimizer", Offload::optimizer}, {"activations", Offload::activations}}};
inline constexpr std::array<Word<Fp8Recipe>, 3> kFp8RecipeWords{
    {{"tensor", Fp8Recipe::tensor}, {"block", Fp8Recipe::block}, {"mx", Fp8Recipe::mx}}};
inline constexpr std::array<Word<SparseWeights>, 2> kSparseWords{
    {{"none", SparseWeights::none}, {"ffn", SparseWeights::ffn}}};
inline constexpr std::array<Word<PipelineSchedule>, 6> kScheduleWords{{{"gpipe", PipelineSchedule::gpipe},
                                                                       {"1f1b", PipelineSchedule::one_f_one_b},
                                                                       {"interleaved", PipelineSchedule::interleaved},
                                                                       {"zero-bubble", PipelineSchedule::zero_bubble},
                                                                       {"dualpipe", PipelineSchedule::dual_pipe},
                                                                       {"dualpipe-v", PipelineSchedule::dual_pipe_v}}};

template <class E, std::size_t N>
constexpr std::string_view word_of(const std::array<Word<E>, N>& words, E value) {
  for (const Word<E>& word : words) {
    if (word.value == value) return word.text;
  }
  return "?";
}

}  // namespace plumbline
