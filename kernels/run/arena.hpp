// Device memory that operators under measurement read and write: filled once with random data, divided into slots.
//
// Data matters: zeros draw less power than random bits and leave the clock higher (kernels are timed on what they would
// see). No CUDA type in here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/common/launch.hpp"

namespace plumbline {

/// What a region holds. `normal_*`: standard normal, as inputs; `output`: whatever kernels left there; `index`: int32,
/// written by the operator's preparation; `scratch`: zeroed before each operator.
enum class Region { normal_bf16, normal_fp8, normal_fp32, output, index, scratch, normal_fp16, count_ };
inline constexpr std::size_t kRegions = static_cast<std::size_t>(Region::count_);

class Arena {
 public:
  /// Allocates nothing yet: a region is allocated and filled when it is first asked for. All regions are about 52 GB,
  /// less on a smaller card.
  Arena();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// How large the region is (or will be).
  std::size_t bytes(Region region) const;
  /// What the normal_* regions and `output` hold from now on (standard normal at first): rewritten on the stream where
  /// that is something else.
  void hold(DataPattern pattern, StreamHandle stream);
  /// The region's memory, aligned to 256 bytes; it is filled on the stream when this is its first use.
  char* data(Region region, StreamHandle stream);

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

/// count int32 in [0, limit), uniform.
void fill_random_ids(std::int32_t* ids, std::int64_t count, std::int64_t limit, std::uint64_t seed,
                     StreamHandle stream);
/// i modulo `period`.
void fill_counting(std::int32_t* values, std::int64_t count, std::int64_t period, StreamHandle stream);
/// base^(-2i / dim) for i < dim / 2: rope's inverse frequencies.
void fill_inverse_frequency(float* values, std::int64_t dim, float base, StreamHandle stream);
/// Copies from the host, waiting for it.
void upload(void* device, const void* host, std::size_t bytes, StreamHandle stream);
void copy_on_device(void* to, const void* from, std::size_t bytes, StreamHandle stream);
void clear(void* device, std::size_t bytes, StreamHandle stream);

}  // namespace plumbline
