#include "validate/measure/cuda_step_ranks.hpp"

#include <cuda_runtime_api.h>

#include <cmath>
#include <exception>
#include <string>
#include <thread>

#include "arch/error.hpp"
#include "validate/measure/cuda_card.hpp"

namespace plumbline {
namespace {

/// A group of the first cards; none for one card.
std::unique_ptr<PeerGroup> group_of(std::size_t count) {
  if (count == 1) return nullptr;
  int there = 0;
  PLUMBLINE_CUDA_CHECK(cudaGetDeviceCount(&there));
  if (static_cast<std::size_t>(there) < count) {
    throw DeviceError("expected " + std::to_string(count) + " GPUs, found " + std::to_string(there));
  }
  std::vector<int> devices;
  for (std::size_t r = 0; r < count; ++r) devices.push_back(static_cast<int>(r));
  return std::make_unique<PeerGroup>(devices);
}

}  // namespace

StepCard::StepCard(int number) : device(number), board(select_card(number)) {}

StepRanks::StepRanks(std::size_t count) : group_(group_of(count)) {
  for (std::size_t r = 0; r < count; ++r) cards_.push_back(std::make_unique<StepCard>(static_cast<int>(r)));
  select(0);
}

void StepRanks::select(std::size_t rank) const { PLUMBLINE_CUDA_CHECK(cudaSetDevice(cards_[rank]->device)); }

void StepRanks::unload() {
  for (std::size_t r = 0; r < count(); ++r) {
    select(r);
    cards_[r]->graph.reset();
    cards_[r]->loaded.reset();
  }
  select(0);
}

void StepRanks::load(const StepTask& task) {
  unload();  // its memory first
  std::vector<const LoadedStep*> steps;
  for (std::size_t r = 0; r < count(); ++r) {
    select(r);
    cards_[r]->loaded =
        std::make_unique<LoadedStep>(task, static_cast<int>(r), static_cast<cudaStream_t>(cards_[r]->stream));
    steps.push_back(cards_[r]->loaded.get());
  }
  for (const auto& card : cards_) {
    if (group_) card->loaded->join(*group_, steps);
  }
  select(0);
}

void StepRanks::enqueue(const StepLaunch& launch) {
  for (std::size_t r = 0; r < count(); ++r) {
    select(r);
    // every rank's own operands lie in its own program, at the same place of the list
    const LoadedStep& step = *cards_[r]->loaded;
    const auto at = static_cast<std::size_t>(&launch - program().launches.data());
    step.enqueue(step.program().launches[at], static_cast<cudaStream_t>(cards_[r]->stream));
  }
}

void StepRanks::enqueue_all() {
  for (const StepLaunch& launch : program().launches) enqueue(launch);
}

void StepRanks::wait() {
  for (std::size_t r = 0; r < count(); ++r) {
    select(r);
    cards_[r]->stream.wait();
  }
  select(0);
}

void StepRanks::capture() {
  for (std::size_t r = 0; r < count(); ++r) {
    select(r);
    StepCard& card = *cards_[r];
    card.graph.reset();
    card.graph = std::make_unique<CudaGraph>(card.stream,
                                             [&card] { card.loaded->enqueue(static_cast<cudaStream_t>(card.stream)); });
    card.graph->upload(card.stream);
  }
  wait();
}

void StepRanks::together(const std::function<void(std::size_t, StepCard&)>& work) {
  const auto run = [&](std::size_t r) {
    select(r);
    StepCard& card = *cards_[r];
    if (group_) group_->launch_align(static_cast<int>(r), nullptr, static_cast<cudaStream_t>(card.stream));
    work(r, card);
  };
  if (!group_) return run(0);
  std::vector<std::exception_ptr> failures(count());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < count(); ++r) {
    threads.emplace_back([&, r] {
      try {
        run(r);
      } catch (...) {
        failures[r] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  select(0);
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

void StepRanks::need_no_fault() {
  const bool fault = group_ && group_->take_fault();
  select(0);
  if (fault) throw DeviceError("a rank gave up waiting for a peer");
}

/// Replicas have the sums of the same gradients, so that their norms are alike but for the order of additions.
std::string StepRanks::replicas_complaint() {
  float first = 0;
  for (std::size_t r = 0; r < count(); ++r) {
    select(r);
    const float norm = cards_[r]->loaded->gradient_norm(static_cast<cudaStream_t>(cards_[r]->stream));
    if (r == 0) first = norm;
    if (std::abs(norm - first) > 1e-4F * first) {
      return "replicas' gradients have norms of " + std::to_string(first) + " and " + std::to_string(norm);
    }
  }
  return "";
}

std::string StepRanks::complaint() {
  std::string text;
  for (std::size_t r = 0; r < count() && text.empty(); ++r) {
    select(r);
    text = cards_[r]->loaded->complaint(static_cast<cudaStream_t>(cards_[r]->stream));
    if (!text.empty() && count() > 1) text += " (rank " + std::to_string(r) + ")";
  }
  if (text.empty()) text = replicas_complaint();
  select(0);
  return text;
}

}  // namespace plumbline
