// A number of a descriptor by its path: for studies, which change it many times without reading files again.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arch/gpu/gpu.hpp"

namespace plumbline {

/// Where a number lies in GpuNumbers.
struct NumberPlace {
  std::size_t offset = 0;
  bool whole = false;  ///< a count
};

/// Nothing for a path that is none, and for numbers that a descriptor alone has (what others are derived from, datasheets).
std::optional<NumberPlace> number_place(std::string_view path);

/// In SI units.
double number_at(const GpuNumbers& numbers, NumberPlace place);
/// A count is rounded to the nearest whole number.
void set_number(GpuNumbers& numbers, NumberPlace place, double value);

/// The numbers of `gpu`, as they are `before`, with others in their places; what it derives follows. Throws BadInput for
/// numbers that no machine has together.
GpuNumbers with_numbers(const Gpu& gpu, const GpuNumbers& before,
                        const std::vector<std::pair<NumberPlace, double>>& changes);

/// A descriptor whose numbers are overridden again and again, one a path: answers as load_gpu() does, in microseconds.
class GpuChanges {
 public:
  /// Reads the descriptor as load_gpu() does.
  explicit GpuChanges(const std::string& name_or_path);

  const Gpu& plain() const { return plain_; }

  /// An override by itself, read once: what it makes of the number. Throws BadInput as load_gpu() does.
  struct Alone {
    std::string path;
    std::optional<NumberPlace> place;  ///< nothing: it changes more than one number
    GpuNumbers numbers;
  };
  Alone alone(const Override& change) const;

  /// The numbers under all of them together; nothing where they can't be put together but by load_gpu(). Throws BadInput
  /// for numbers that no machine has together.
  std::optional<GpuNumbers> together(const std::vector<const Alone*>& changes) const;

 private:
  std::string name_;
  Gpu plain_;
};

}  // namespace plumbline
