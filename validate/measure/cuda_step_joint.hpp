// What the ranks of a step do together against what each of them holds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "validate/measure/cuda_step_ranks.hpp"
#include "validate/measure/cuda_step_values.hpp"

namespace plumbline {

using Bits = std::vector<unsigned char>;

inline Bits bits_of(const LoadedStep& step, const StepOperand& from, std::size_t bytes) {
  Bits out(bytes);
  PLUMBLINE_CUDA_CHECK(cudaMemcpy(out.data(), step.at(from), bytes, cudaMemcpyDeviceToHost));
  return out;
}

/// A collective of what the launch before it left: what it adds or gathers is read when this is made, its results later.
class JointCheck {
 public:
  JointCheck(StepRanks& ranks, std::size_t at) : ranks_(ranks), at_(at), shape_(std::get<Collective>(launch(0).op)) {
    for (std::size_t r = 0; r < ranks.count(); ++r) {
      parts_.push_back(Reader(step(r)).read(launch(r).x, 0, scatters() ? shape_.bytes / 2 : peer_elements(shape_)));
    }
  }

  double worst() {
    if (scatters()) return scattered();
    const auto bytes = static_cast<std::size_t>(shape_.bytes);
    const Bits first = bits_of(step(0), launch(0).y, bytes);
    for (std::size_t r = 1; r < ranks_.count(); ++r) {
      if (bits_of(step(r), launch(r).y, bytes) != first) return INFINITY;
    }
    const Values got = Reader(step(0)).read(launch(0).y, 0, shape_.bytes / 2);
    return shape_.kind == CollectiveKind::all_gather ? gathered(got) : added(got);
  }

 private:
  bool scatters() const { return shape_.kind == CollectiveKind::reduce_scatter; }

  /// Each rank holds its own part of the sum.
  double scattered() {
    double worst = 0;
    const std::int64_t part = peer_elements(shape_);
    for (std::size_t r = 0; r < ranks_.count(); ++r) {
      worst = std::max(worst, added(Reader(step(r)).read(launch(r).y, 0, part), static_cast<std::int64_t>(r) * part));
    }
    return worst;
  }

  double gathered(const Values& got) const {
    Values all;
    for (const Values& part : parts_) all.insert(all.end(), part.begin(), part.end());
    return got == all ? 0 : INFINITY;
  }

  /// What lies from element `first` of the sum on.
  double added(const Values& got, std::int64_t first = 0) const {
    Difference added, multiplied;
    for (std::size_t i = 0; i < got.size(); ++i) {
      double sum = 0;
      for (const Values& part : parts_) sum += part[static_cast<std::size_t>(first) + i];
      added.add(got[i], sum);
    }
    const auto* product = at_ > 0 ? std::get_if<Gemm>(&ranks_.program().launches[at_ - 1].op) : nullptr;
    if (product == nullptr) return added.relative();
    std::mt19937_64 random(11);
    for (int i = 0; i < kSamples; ++i) {
      const auto at = static_cast<std::int64_t>(random() % got.size());
      const std::int64_t row = (first + at) / product->n, col = (first + at) % product->n;
      double sum = 0;
      for (std::size_t r = 0; r < ranks_.count(); ++r) sum += inner_product(r, *product, row, col);
      multiplied.add(got[static_cast<std::size_t>(at)], sum);
    }
    return std::max(added.relative(), multiplied.relative());
  }

  const LoadedStep& step(std::size_t rank) const { return *ranks_.card(rank).loaded; }
  const StepLaunch& launch(std::size_t rank) const { return step(rank).program().launches[at_]; }

  double inner_product(std::size_t rank, const Gemm& s, std::int64_t row, std::int64_t col) const {
    const StepLaunch& l = step(rank).program().launches[at_ - 1];
    const Reader in(step(rank), s.precision.input);
    const Values x = in.read(l.x, row * s.k, s.k), w = in.read(l.weight, col * s.k, s.k);
    double sum = 0;
    for (std::size_t k = 0; k < x.size(); ++k) sum += x[k] * w[k];
    return sum * static_cast<double>(l.gemm_scale);
  }

  StepRanks& ranks_;
  std::size_t at_;
  const Collective shape_;
  std::vector<Values> parts_;
};

/// Replays of the ranks' graphs against the step operator by operator, on two sets of tokens that take turns.
class Replays {
 public:
  explicit Replays(StepRanks& ranks) : ranks_(ranks) {}

  StepOpCheck run() {
    StepOpCheck check;
    check.name = "replays";
    for (const bool other : {false, true}) {
      put_tokens(other);
      ranks_.enqueue_all();
      ranks_.need_no_fault();
      wanted_[other ? 1 : 0] = logits();
    }
    if (wanted_[0] == wanted_[1]) check.error = INFINITY;  // the tokens change nothing: nothing would be seen
    ranks_.capture();
    constexpr int kTurns = 16, kBackToBack = 3;
    for (int turn = 0; turn < kTurns; ++turn) {
      put_tokens(turn % 2 == 1);
      ranks_.together([](std::size_t, StepCard& card) {
        for (int i = 0; i < kBackToBack; ++i) card.graph->launch(card.stream);
        card.stream.wait();
      });
      ranks_.need_no_fault();
      if (logits() != wanted_[static_cast<std::size_t>(turn % 2)]) check.error = INFINITY;
    }
    put_tokens(false);
    return check;
  }

 private:
  const StepProgram& program(std::size_t rank) const { return ranks_.card(rank).loaded->program(); }

  /// The program's own, or of each the next one of its rank's table; a row of zeros stays one on all other ranks.
  void put_tokens(bool other) {
    for (std::size_t r = 0; r < ranks_.count(); ++r) {
      const StepOperand& ids = program(r).ids;
      std::vector<std::int32_t> values = program(r).buffers[static_cast<std::size_t>(ids.buffer)].integers;
      const auto zeros = static_cast<std::int32_t>(table_rows(r) - 1);  // the last one
      for (std::int32_t& id : values) id = other && id < zeros ? (id + 1) % zeros : id;
      PLUMBLINE_CUDA_CHECK(
          cudaMemcpy(ranks_.card(r).loaded->at(ids), values.data(), values.size() * 4, cudaMemcpyHostToDevice));
    }
    PLUMBLINE_CUDA_CHECK(cudaDeviceSynchronize());
  }

  std::size_t table_rows(std::size_t rank) const {
    const StepLaunch& l = program(rank).launches.front();
    const auto width = static_cast<std::size_t>(std::get<Embedding>(l.op).cols);
    return program(rank).buffers[static_cast<std::size_t>(l.weight.buffer)].bytes / (2 * width);
  }

  std::vector<Bits> logits() const {
    std::vector<Bits> out;
    for (std::size_t r = 0; r < ranks_.count(); ++r) {
      const StepOperand& from = program(r).logits;
      const std::size_t bytes = program(r).buffers[static_cast<std::size_t>(from.buffer)].bytes;
      out.push_back(bits_of(*ranks_.card(r).loaded, from, bytes));
    }
    return out;
  }

  StepRanks& ranks_;
  std::vector<Bits> wanted_[2];
};

}  // namespace plumbline
