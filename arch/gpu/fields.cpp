#include "arch/gpu/fields.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/format.hpp"

namespace plumbline::descriptor {
namespace {

using namespace std::string_view_literals;

/// Descriptor keys that hold text and decide nothing; checked like numbers, but not open to `--set`.
const std::vector<std::string>& text_paths() {
  static const std::vector<std::string> paths{"name",        "title",   "vendor",  "architecture", "compute_capability",
                                              "calibration", "cluster", "extends", "source",       "memory.type"};
  return paths;
}

constexpr std::array kMatrixUnits{std::pair(MatrixUnit::mma_sync, "mma_sync"sv),
                                  std::pair(MatrixUnit::wgmma, "wgmma"sv), std::pair(MatrixUnit::tcgen05, "tcgen05"sv),
                                  std::pair(MatrixUnit::mfma, "mfma"sv)};
constexpr std::array kAsyncCopies{std::pair(AsyncCopy::none, "none"sv), std::pair(AsyncCopy::cp_async, "cp_async"sv),
                                  std::pair(AsyncCopy::tma, "tma"sv),
                                  std::pair(AsyncCopy::load_to_lds, "load_to_lds"sv)};

template <class Enum, std::size_t N>
std::string_view name_in(const std::array<std::pair<Enum, std::string_view>, N>& names, Enum value) {
  for (const auto& [known, text] : names) {
    if (known == value) return text;
  }
  return "?";
}

/// The value that a word names. Throws BadInput with all the words and the nearest.
template <class Enum, std::size_t N>
Enum value_of(const JsonValue& word, const std::array<std::pair<Enum, std::string_view>, N>& names) {
  const std::string text = word.as_string();
  std::string list;
  std::vector<std::string> known;
  for (const auto& [value, spelling] : names) {
    if (spelling == text) return value;
    known.emplace_back(spelling);
    list += (list.empty() ? "" : ", ") + known.back();
  }
  word.fail("expected one of " + list + ", found \"" + text.substr(0, 60) + "\"" + did_you_mean(text, known));
}

/// Keys whose contents are free lists or maps.
bool is_free_form(const std::string& path) { return path == "sources" || path == "aliases" || path == "assumptions"; }

/// Products of three counts must stay exact in 64 bits (occupancy).
constexpr std::int64_t kLargestCount = 1'000'000;
constexpr Bytes kLargestSize = 1e18 * units::B;

double si(std::int64_t v) { return static_cast<double>(v); }
double si(double v) { return v; }
double si(Bytes v) { return v.in(units::B); }
double si(Bandwidth v) { return v.in(units::B_per_s); }
double si(Seconds v) { return v.in(units::s); }
double si(Hertz v) { return v.in(units::Hz); }
double si(Watts v) { return v.in(units::W); }
double si(FlopRate v) { return v.in(units::FLOP_per_s); }

void read(const JsonValue& value, std::int64_t& out) {
  out = value.as_integer();
  if (out > kLargestCount) value.fail("expected a count of at most a million, found " + value.dump());
}
void read(const JsonValue& value, double& out) { out = value.as_number(); }
void read(const JsonValue& value, Seconds& out) { out = value.as_seconds(); }
void read(const JsonValue& value, Hertz& out) { out = value.as_hertz(); }
void read(const JsonValue& value, Watts& out) { out = value.as_watts(); }
void read(const JsonValue& value, FlopRate& out) { out = value.as_flop_rate(); }

/// Links and memories are sold in decimal GB/s; a binary rate is a number that went through the wrong converter.
void read(const JsonValue& value, Bandwidth& out) {
  out = value.as_bandwidth();
  if (value.as_string().find("iB") != std::string::npos) {
    value.fail("expected a decimal rate, found " + value.dump() + ": bandwidths are in powers of ten; write \"" +
               format_exact(out.in(units::GB_per_s)) + " GB/s\"");
  }
}

/// Memories are built in powers of two: the "141 GB" of a data sheet is 141 GiB, 7 % more than 141e9 bytes.
void read(const JsonValue& value, Bytes& out) {
  out = value.as_bytes();
  if (out > kLargestSize) value.fail("expected at most 1e18 bytes, found " + value.dump());
  const std::string text = value.as_string();
  for (const char* decimal : {"kB", "MB", "GB", "TB"}) {
    const auto at = text.find(decimal);
    if (at == std::string::npos) continue;
    std::string binary = text;
    binary.replace(at, 2, std::string(1, decimal[0] == 'k' ? 'K' : decimal[0]) + "iB");
    value.fail("GB/GiB mix-up: memories are sized in powers of two, expected \"" + binary + "\", found \"" + text +
               "\" (decimal, " + format_binary(out) + ")");
  }
}

std::string without_place(const std::string& message, const JsonValue& value) {
  const std::string place = value.place() + ": ";
  return message.compare(0, place.size(), place) == 0 ? message.substr(place.size()) : message;
}

class Reader {
 public:
  Reader(const JsonValue& root, const std::vector<Override>& overrides) : root_(root), overrides_(overrides) {}

  template <class T>
  void operator()(std::string_view path, T& out, Need need) const {
    const auto value = find_path(root_, path);
    if (!value) {
      if (need == Need::optional) return;
      throw BadInput(root_.place() + ": missing key '" + pointer_of(path) + "'");
    }
    try {
      read(*value, out);
      check_range(*value, si(out), need);
    } catch (const BadInput& e) {
      if (const Override* o = override_of(path)) {
        throw BadInput("set " + o->path + "=" + o->value + ": " + without_place(e.what(), *value));
      }
      throw;
    }
  }

 private:
  static void check_range(const JsonValue& value, double number, Need need) {
    if (!std::isfinite(number)) value.fail("expected a finite number, found " + value.dump());
    if (number < 0) value.fail("expected a number that is not negative, found " + value.dump());
    if (number == 0 && need == Need::positive) value.fail("expected a number above zero, found " + value.dump());
  }

  const Override* override_of(std::string_view path) const {
    const auto it =
        std::find_if(overrides_.rbegin(), overrides_.rend(), [&](const Override& o) { return o.path == path; });
    return it == overrides_.rend() ? nullptr : &*it;
  }

  JsonValue root_;
  const std::vector<Override>& overrides_;
};

std::string text_or(const JsonValue& root, std::string_view path, const std::string& otherwise) {
  const auto value = find_path(root, path);
  return value ? value->as_string() : otherwise;
}

/// A word that must be there. Throws BadInput where it is missing or empty.
JsonValue word_at(const JsonValue& root, std::string_view path) {
  const auto value = find_path(root, path);
  if (!value) throw BadInput(root.place() + ": missing key '" + pointer_of(path) + "'");
  if (value->as_string().empty()) value->fail("expected a word, found \"\"");
  return *value;
}

}  // namespace

const std::vector<std::string>& number_paths() {
  static const std::vector<std::string> paths = [] {
    std::vector<std::string> all;
    GpuDescriptor any;
    visit_numbers(any, [&](std::string_view path, auto&, Need) { all.emplace_back(path); });
    return all;
  }();
  return paths;
}

const std::vector<std::string>& word_paths() {
  static const std::vector<std::string> paths{"generation", "sm.matrix_unit", "sm.async_copy", "process.node"};
  return paths;
}

std::string pointer_of(std::string_view dotted_path) {
  std::string pointer("/");
  pointer += dotted_path;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  return pointer;
}

std::optional<JsonValue> find_path(const JsonValue& root, std::string_view dotted_path) {
  std::optional<JsonValue> node = root;
  while (node) {
    if (!node->is_object()) return std::nullopt;
    const auto dot = dotted_path.find('.');
    node = node->find(dotted_path.substr(0, dot));
    if (dot == std::string_view::npos) return node;
    dotted_path.remove_prefix(dot + 1);
  }
  return std::nullopt;
}

GpuDescriptor read_descriptor(const JsonValue& root, const std::vector<Override>& overrides) {
  GpuDescriptor d;
  visit_numbers(d, Reader(root, overrides));
  Gpu& gpu = d.gpu;
  gpu.name = root.at("name").as_string();
  gpu.vendor = text_or(root, "vendor", "");
  gpu.architecture = text_or(root, "architecture", "");
  gpu.compute_capability = text_or(root, "compute_capability", "");
  gpu.calibration = text_or(root, "calibration", gpu.name);
  gpu.cluster = text_or(root, "cluster", "");
  gpu.memory_type = text_or(root, "memory.type", "");
  gpu.generation = word_at(root, "generation").as_string();
  gpu.sm.matrix_unit = value_of(word_at(root, "sm.matrix_unit"), kMatrixUnits);
  gpu.sm.async_copy = value_of(word_at(root, "sm.async_copy"), kAsyncCopies);
  gpu.process.node = word_at(root, "process.node").as_string();
  return d;
}

namespace {

void refuse_unknown_keys(const JsonValue& node, const std::string& prefix) {
  for (const std::string& key : node.keys()) {
    const std::string path = prefix + key;
    if (prefix.empty() && is_free_form(path)) continue;
    std::vector<std::string> siblings;  // keys that may stand at this level
    bool leaf = false, inner = false;
    for (const auto* list : {&number_paths(), &word_paths(), &text_paths()}) {
      for (const std::string& known : *list) {
        leaf |= known == path;
        inner |= known.compare(0, path.size() + 1, path + ".") == 0;
        if (known.compare(0, prefix.size(), prefix) == 0) {
          siblings.push_back(known.substr(prefix.size(), known.find('.', prefix.size()) - prefix.size()));
        }
      }
    }
    if ((!leaf && !inner) || key.find('.') != std::string::npos) {
      throw BadInput(node.place() + ": unknown key '" + key.substr(0, 60) + "'" + did_you_mean(key, siblings));
    }
    const auto child = node.find(key);
    if (!inner || !child) continue;
    if (!child->is_object()) child->fail("expected an object, found " + child->dump().substr(0, 60));
    refuse_unknown_keys(*child, path + ".");
  }
}

}  // namespace

void refuse_unknown_keys(const JsonValue& root) {
  if (!root.is_object()) root.fail("expected an object, found " + root.dump().substr(0, 60));
  refuse_unknown_keys(root, "");
}

namespace {

std::string_view unit_of(std::int64_t) { return "count"; }
std::string_view unit_of(double) { return "number"; }
std::string_view unit_of(Bytes) { return "B, KiB, MiB, GiB"; }
std::string_view unit_of(Bandwidth) { return "GB/s, TB/s"; }
std::string_view unit_of(Seconds) { return "ns, us"; }
std::string_view unit_of(Hertz) { return "MHz, GHz"; }
std::string_view unit_of(Watts) { return "W"; }
std::string_view unit_of(FlopRate) { return "TFLOP/s"; }

/// Paths that hold all the words of a path that is none: "clock.boost" -> "boost_clock".
std::string did_you_mean_words(const std::string& text, const std::vector<std::string>& paths) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == '.' || c == '_' || c == '-') words.emplace_back();
    else words.back() += c;
  }
  std::string list;
  for (const std::string& path : paths) {
    const bool all = std::all_of(words.begin(), words.end(), [&](const std::string& word) {
      return word.size() > 2 && path.find(word) != std::string::npos;
    });
    if (all) list.append(list.empty() ? " (did you mean '" : " or '").append(path).append("'");
  }
  return list.empty() ? list : list.append("?)");
}

/// For a bare last part, even misspelt ("bandwith"): all paths that end so ("l2.bandwidth", "memory.bandwidth").
std::string did_you_mean_ending(const std::string& text, const std::vector<std::string>& paths) {
  const auto ending = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
  std::vector<std::string> endings;
  for (const std::string& path : paths) endings.push_back(ending(path));
  const std::string nearest = nearest_name(text, endings);
  std::string list;
  for (const std::string& path : paths) {
    if (nearest.empty() || ending(path) != nearest) continue;
    list.append(list.empty() ? " (did you mean '" : " or '").append(path).append("'");
  }
  return list.empty() ? list : list.append("?)");
}

}  // namespace

std::vector<GpuParameter> parameters() {
  std::vector<GpuParameter> all;
  GpuDescriptor any;
  visit_numbers(any, [&](std::string_view path, auto& number, Need) {
    all.push_back({std::string(path), std::string(unit_of(number))});
  });
  return all;
}

void refuse_unknown_override(const Override& override_) {
  const auto& known = number_paths();
  if (std::find(known.begin(), known.end(), override_.path) != known.end()) return;
  std::string nearest = did_you_mean(override_.path, known);
  if (override_.path.find('.') == std::string::npos) {
    const std::string ending = did_you_mean_ending(override_.path, known);
    if (ending.find("' or '") != std::string::npos || nearest.empty()) nearest = ending;
  }
  if (nearest.empty()) nearest = did_you_mean_words(override_.path, known);
  throw BadInput("set " + override_.path + "=" + override_.value +
                 ": expected the path of a descriptor number, found '" + override_.path + "'" + nearest +
                 (nearest.empty() ? "; predict-model list parameters and gpu_parameters() name them all" : ""));
}

}  // namespace plumbline::descriptor

namespace plumbline {

std::string_view name(MatrixUnit unit) { return descriptor::name_in(descriptor::kMatrixUnits, unit); }
std::string_view name(AsyncCopy copy) { return descriptor::name_in(descriptor::kAsyncCopies, copy); }

}  // namespace plumbline
