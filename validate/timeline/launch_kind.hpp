// What kind of work a launch does, by its shape on the one side and by names on the other: which launches may be each
// other's when a measured timeline is laid beside a predicted step.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ops/shape/shapes.hpp"
#include "validate/timeline/timeline.hpp"

namespace plumbline {

/// `other`: element by element, rows, copies, indices. Launches of different kinds are never each other's.
enum class LaunchKind { matrix, attention, collective, other };

LaunchKind kind_of(const Op& op);
/// By the framework's operator, else by words that libraries have in their kernels' names.
LaunchKind kind_of(const TimelineKernel& kernel);

/// A launch beside an operator's main one, where no framework says which call it is of: the sum over the parts of a split
/// product or of split attention.
bool is_helper(const TimelineKernel& kernel);

/// A batch of products [M,K] x [K,N].
struct MatrixSizes {
  std::int64_t M = 0, N = 0, K = 0, batch = 1;
  bool operator==(const MatrixSizes&) const = default;
  double products() const;  ///< M N K batch
};
std::optional<MatrixSizes> matrix_sizes(const Op& op);
/// Of a framework's call of mm, addmm, bmm, linear, ...: its last two tensors that can be multiplied.
std::optional<MatrixSizes> matrix_sizes(const TimelineKernel& kernel);

/// What names speak of, a bit a word of either side: "attn_norm.square" and a kernel with "pow" in its name share one.
std::uint32_t words_of(std::string_view node, std::string_view op);
std::uint32_t words_of(const TimelineKernel& kernel);

}  // namespace plumbline
