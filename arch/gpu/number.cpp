#include "arch/gpu/number.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "arch/gpu/checks.hpp"
#include "arch/gpu/fields.hpp"

namespace plumbline {
namespace {

struct NamedPlace {
  std::string path;
  NumberPlace place;
};

const char* address_of(const void* object) { return static_cast<const char*>(object); }

/// All numbers that lie in GpuNumbers: each is a count or a quantity, which holds its SI value as a double.
const std::vector<NamedPlace>& named_places() {
  static const std::vector<NamedPlace> all = [] {
    std::vector<NamedPlace> found;
    descriptor::GpuDescriptor d;
    const char* begin = address_of(static_cast<const GpuNumbers*>(&d.gpu));
    descriptor::visit_numbers(d, [&](std::string_view path, auto& number, descriptor::Need) {
      using Number = std::remove_reference_t<decltype(number)>;
      static_assert(sizeof(Number) == sizeof(double) && std::is_trivially_copyable_v<Number>);
      const char* at = address_of(&number);
      if (at < begin || at >= begin + sizeof(GpuNumbers)) return;
      const auto offset = static_cast<std::size_t>(at - begin);
      found.push_back({std::string(path), {offset, std::is_same_v<Number, std::int64_t>}});
    });
    return found;
  }();
  return all;
}

/// Numbers that links and generations imply are read together.
bool stands_alone(const std::string& path) { return !path.starts_with("links."); }

bool is_derived_from_others(const std::string& path) { return path == "l2.bandwidth" || path == "idle_power"; }

}  // namespace

std::optional<NumberPlace> number_place(std::string_view path) {
  for (const NamedPlace& each : named_places()) {
    if (each.path == path) return each.place;
  }
  return std::nullopt;
}

double number_at(const GpuNumbers& numbers, NumberPlace place) {
  const char* at = address_of(&numbers) + place.offset;
  if (place.whole) {
    std::int64_t count = 0;
    std::memcpy(&count, at, sizeof count);
    return static_cast<double>(count);
  }
  double value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void set_number(GpuNumbers& numbers, NumberPlace place, double value) {
  char* at = static_cast<char*>(static_cast<void*>(&numbers)) + place.offset;
  if (place.whole) {
    const std::int64_t count = std::llround(value);
    std::memcpy(at, &count, sizeof count);
  } else {
    std::memcpy(at, &value, sizeof value);
  }
}

GpuNumbers with_numbers(const Gpu& gpu, const GpuNumbers& before,
                        const std::vector<std::pair<NumberPlace, double>>& changes) {
  GpuNumbers numbers = before;
  for (const auto& [place, value] : changes) set_number(numbers, place, value);
  descriptor::GpuDescriptor d;
  d.gpu.name = gpu.name;
  static_cast<GpuNumbers&>(d.gpu) = derived_again(gpu, before, numbers);
  descriptor::check_physics(d, "set on " + gpu.name);
  return static_cast<const GpuNumbers&>(d.gpu);
}

GpuChanges::GpuChanges(const std::string& name_or_path) : name_(name_or_path), plain_(load_gpu(name_or_path)) {}

GpuChanges::Alone GpuChanges::alone(const Override& change) const {
  const Gpu gpu = load_gpu(name_, {change});
  Alone out{change.path, number_place(change.path), static_cast<const GpuNumbers&>(gpu)};
  if (!stands_alone(change.path)) out.place.reset();
  // set to its own value it no longer follows what it is derived from
  if (out.place && is_derived_from_others(change.path) && number_at(gpu, *out.place) == number_at(plain_, *out.place)) {
    out.place.reset();
  }
  return out;
}

std::optional<GpuNumbers> GpuChanges::together(const std::vector<const Alone*>& changes) const {
  GpuNumbers numbers = static_cast<const GpuNumbers&>(plain_);
  std::vector<std::string> set;
  for (const Alone* each : changes) {
    if (!each->place) return std::nullopt;
    set_number(numbers, *each->place, number_at(each->numbers, *each->place));
    set.push_back(each->path);
  }
  descriptor::GpuDescriptor d;
  d.gpu.name = plain_.name;
  static_cast<GpuNumbers&>(d.gpu) = derived_again(plain_, plain_, numbers, set);
  descriptor::check_physics(d, "set on " + plain_.name);
  return static_cast<const GpuNumbers&>(d.gpu);
}

}  // namespace plumbline
