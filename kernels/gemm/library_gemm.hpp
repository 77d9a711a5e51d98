// NVIDIA's cuBLASLt on the same operands, for comparison: loaded when it is asked for, never linked.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/gemm/gemm.hpp"

namespace plumbline {

/// What the library may use, as its documentation advises for Hopper (32 MiB).
inline constexpr std::size_t kLibraryWorkspace = std::size_t{32} << 20;

/// One product as cuBLASLt's heuristic would run it: its first algorithm, unsearched. bf16 or fp8 (e4m3 with a scale
/// each and fast accumulation) in, bf16 out. A row-major y[M,N] is the library's column-major y^T = W x^T.
class LibraryGemm {
 public:
  /// Throws DeviceError when there is no libcublasLt, NotModelled when it has no algorithm for the shape.
  explicit LibraryGemm(const Gemm& shape);
  ~LibraryGemm();
  LibraryGemm(const LibraryGemm&) = delete;
  LibraryGemm& operator=(const LibraryGemm&) = delete;

  /// buffers.workspace holds kLibraryWorkspace bytes; buffers.scale must be 1.
  void launch(const GemmBuffers& buffers, StreamHandle stream) const;
  /// "cuBLASLt 13.0.2, algorithm 66 of the heuristic, waves 0.97".
  const std::string& plan() const;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace plumbline
