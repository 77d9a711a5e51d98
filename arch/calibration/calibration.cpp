#include "arch/calibration/calibration.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "arch/calibration/names.hpp"
#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/format.hpp"
#include "arch/gpu/gpu.hpp"
#include "arch/json_reader.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kSchema = 1;
constexpr std::array<std::string_view, 3> kKernelSets{"own", "library", "ideal"};
constexpr std::array<std::string_view, 4> kSizeClasses{"10us", "100us", "large", "any"};
constexpr std::array<std::string_view, 4> kBounds{"compute", "memory", "network", "latency"};
constexpr std::array<std::string_view, 2> kDistances{"near", "far"};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

/// Names carry their unit: a fraction is of a peak and cannot pass it, a time cannot be negative.
void check_scalar(const JsonValue& value, std::string_view name, double number) {
  const bool fraction = ends_with(name, "_fraction") || ends_with(name, "efficiency");
  const bool loss = name.find("_loss_") != std::string_view::npos;  // a loss may be none
  if (fraction && !((loss ? number >= 0 : number > 0) && number <= 1)) {
    value.fail("expected a fraction above 0 and at most 1 (nothing runs above its peak), found " + value.dump());
  }
  const bool energy = ends_with(name, "_J") || name.find("_J_per_") != std::string_view::npos || ends_with(name, "_W");
  if (energy && number < 0) value.fail("expected an energy or a power that is not negative, found " + value.dump());
  if (ends_with(name, "_s") && number < 0) value.fail("expected a time that is not negative, found " + value.dump());
  const bool rate = ends_with(name, "_clk") || ends_with(name, "_per_column") || ends_with(name, "_ratio");
  if (rate && number < 0) value.fail("expected a number that is not negative, found " + value.dump());
}

/// Refuses the first key of `group` that is not among `known`.
void check_keys(const JsonValue& group, std::span<const std::string_view> known, const char* what) {
  for (const std::string& key : group.keys()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::vector<std::string> names(known.begin(), known.end());
    group.at(key).fail(std::string("expected ") + what + " that is read, found '" + key.substr(0, 60) + "'" +
                       did_you_mean(key, names));
  }
}

std::map<std::string, Scalar> read_scalars(const JsonValue& group, std::span<const std::string_view> known) {
  if (!group.is_object()) group.fail("expected an object of named scalars, found " + group.dump().substr(0, 60));
  check_keys(group, known, "a scalar");
  std::map<std::string, Scalar> scalars;
  for (const std::string& name : group.keys()) {
    const JsonValue entry = group.at(name);
    entry.refuse_unknown_keys({"value", "source", "residual", "rows"});
    const JsonValue value = entry.at("value");
    Scalar scalar{value.as_number(), entry.at("source").as_string()};
    if (scalar.source.empty()) entry.at("source").fail("expected where the number comes from, found \"\"");
    check_scalar(value, name, scalar.value);
    if (const auto residual = entry.find("residual")) scalar.residual = residual->as_number();
    if (scalar.residual.value_or(0) < 0) entry.at("residual").fail("expected a misfit that is not negative");
    if (const auto rows = entry.find("rows")) scalar.rows = static_cast<long>(rows->as_integer());
    if (scalar.rows < 0) entry.at("rows").fail("expected a count of records, found " + entry.at("rows").dump());
    scalars[name] = std::move(scalar);
  }
  return scalars;
}

template <std::size_t N>
void check_name(const JsonValue& at, std::string_view text, const std::array<std::string_view, N>& allowed,
                const char* what) {
  std::string list;
  std::vector<std::string> names;
  for (const std::string_view name : allowed) {
    if (name == text) return;
    names.emplace_back(name);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  at.fail(std::string("expected ") + what + " (" + list + "), found '" + std::string(text.substr(0, 40)) + "'" +
          did_you_mean(text, names));
}

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  for (std::size_t first = 0; first <= name.size();) {
    const std::size_t dot = std::min(name.find('.', first), name.size());
    parts.push_back(name.substr(first, dot - first));
    first = dot + 1;
  }
  return parts;
}

/// "library.gemm.large" or "library.gemm.large.memory"; each part is checked.
void check_band_name(const JsonValue& entry, std::string_view name) {
  const std::vector<std::string_view> parts = parts_of(name);
  if (parts.size() < 3 || parts.size() > 4 || parts[1].empty()) {
    entry.fail("expected a name such as \"library.gemm.large\" (kernel set, class, size class), found '" +
               std::string(name.substr(0, 60)) + "'");
  }
  check_name(entry, parts[0], kKernelSets, "a kernel set");
  check_name(entry, parts[2], kSizeClasses, "a size class");
  if (parts.size() == 4) check_name(entry, parts[3], kBounds, "a bound");
}

/// "near.library.gemm.large" -> "library.gemm.large", when the first part says how far.
std::string_view without_distance(const JsonValue& entry, std::string_view name) {
  const std::size_t dot = std::min(name.find('.'), name.size());
  check_name(entry, name.substr(0, dot), kDistances, "a distance");
  return name.substr(std::min(dot + 1, name.size()));
}

Band read_band(const JsonValue& entry) {
  entry.refuse_unknown_keys({"low", "middle", "high", "rows", "pooled"});
  Band band;
  band.low = entry.at("low").as_number();
  band.high = entry.at("high").as_number();
  band.rows = static_cast<long>(entry.at("rows").as_integer());
  if (band.low > band.high) {
    entry.fail("expected low <= high, found " + format(band.low) + " and " + format(band.high));
  }
  band.middle = std::clamp(0.0, band.low, band.high);  // files from before there was one
  if (const auto middle = entry.find("middle")) {
    band.middle = middle->as_number();
    if (band.middle < band.low || band.middle > band.high) middle->fail("expected low <= middle <= high");
  }
  if (const auto pooled = entry.find("pooled")) band.pooled = pooled->as_string();
  if (band.rows < 0) entry.at("rows").fail("expected a count of rows, found " + entry.at("rows").dump());
  return band;
}

double correlation_in(const JsonValue& value) {
  const double number = value.as_number();
  if (!(number >= 0 && number <= 1)) value.fail("expected a correlation from 0 to 1, found " + value.dump());
  return number;
}

BandCorrelation read_correlation(const JsonValue& entry) {
  entry.refuse_unknown_keys({"same_class", "other_class", "rows", "card"});
  BandCorrelation out;
  out.same_class = correlation_in(entry.at("same_class"));
  out.other_class = correlation_in(entry.at("other_class"));
  out.rows = static_cast<long>(entry.at("rows").as_integer());
  if (const auto card = entry.find("card")) out.card = correlation_in(*card);
  if (out.other_class > out.same_class) entry.fail("expected other_class <= same_class");
  return out;
}

void read_error_bands(const JsonValue& root, Calibration& out) {
  if (const auto bands = root.find("bands")) {
    if (!bands->is_object()) bands->fail("expected an object of bands");
    for (const std::string& name : bands->keys()) {
      check_band_name(bands->at(name), name);
      out.bands[name] = read_band(bands->at(name));
    }
  }
  if (const auto bands = root.find("transfer_bands")) {
    if (!bands->is_object()) bands->fail("expected an object of bands");
    for (const std::string& name : bands->keys()) {
      check_band_name(bands->at(name), without_distance(bands->at(name), name));
      out.transfer_bands[name] = read_band(bands->at(name));
    }
  }
  if (const auto correlations = root.find("band_correlation")) {
    if (!correlations->is_object()) correlations->fail("expected an object of correlations");
    for (const std::string& name : correlations->keys()) {
      const JsonValue entry = correlations->at(name);
      const bool plain = name.find('.') == std::string::npos;
      check_name(entry, plain ? std::string_view(name) : without_distance(entry, name), kKernelSets, "a kernel set");
      out.band_correlation[name] = read_correlation(entry);
    }
  }
}

/// {"library.gemm": ["bf16", "fp8"], "far.library.gemm": ["int8"]}
void read_measured(const JsonValue& measured, Calibration& out) {
  if (!measured.is_object()) measured.fail("expected an object of lists of number formats");
  for (const std::string& name : measured.keys()) {
    const JsonValue entry = measured.at(name);
    std::vector<std::string_view> parts = parts_of(name);
    if (parts.size() == 3) {
      check_name(entry, parts[0], kDistances, "a distance");
      parts.erase(parts.begin());
    }
    if (parts.size() != 2 || parts[1].empty()) {
      entry.fail("expected a name such as \"library.gemm\" (kernel set, class), found '" + name.substr(0, 60) + "'");
    }
    check_name(entry, parts[0], kKernelSets, "a kernel set");
    for (const JsonValue& format : entry.elements()) {
      const std::string text = format.as_string();
      if (!parse_precision(text) && text != kAnyFormat)
        format.fail("expected a number format such as bf16, found '" + text.substr(0, 60) + "'");
      out.measured[name].push_back(text);
    }
  }
}

nlohmann::ordered_json bands_to_json(const std::map<std::string, Band>& bands) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const auto& [name, band] : bands) {
    const double middle = std::clamp(band.middle, band.low, band.high);
    out[name] = {{"low", band.low}, {"middle", middle}, {"high", band.high}, {"rows", band.rows}};
    if (!band.pooled.empty()) out[name]["pooled"] = band.pooled;
  }
  return out;
}

/// The file name of a GPU's calibration; nothing but a plain short name may become a path.
std::string file_of(const std::string& gpu_name) {
  for (const char c : gpu_name) {
    const auto u = static_cast<unsigned char>(c);
    if (u >= 128 || (std::isalnum(u) == 0 && c != '_' && c != '-')) return "";
  }
  return gpu_name.empty() ? "" : data_folder() + "/calibration/" + gpu_name + ".json";
}

bool file_exists(const std::string& path) {
  std::error_code ec;
  return !path.empty() && std::filesystem::is_regular_file(path, ec);
}

nlohmann::ordered_json scalars_to_json(const std::map<std::string, Scalar>& scalars) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const auto& [name, scalar] : scalars) {
    nlohmann::ordered_json& entry = out[name] = {{"value", scalar.value}, {"source", scalar.source}};
    if (scalar.residual) entry["residual"] = *scalar.residual;
    if (scalar.rows > 0) entry["rows"] = scalar.rows;
  }
  return out;
}

using Scalars = std::map<std::string, Scalar>;

/// What the engine reads, and what the probes found beside it.
std::pair<Scalars, Scalars> by_section(const Scalars& scalars) {
  std::pair<Scalars, Scalars> out;
  const auto probed = probed_scalar_names();
  for (const auto& [name, scalar] : scalars) {
    const bool only_probed = std::find(probed.begin(), probed.end(), name) != probed.end();
    (only_probed ? out.second : out.first).emplace(name, scalar);
  }
  return out;
}

}  // namespace

Calibration parse_calibration(const std::string& json_text, const std::string& place) {
  const JsonDocument document = JsonDocument::parse(json_text, place);
  const JsonValue root = document.root();
  root.refuse_unknown_keys({"schema", "gpu", "note", "conditions", "families_of", "machine", "probed", "power",
                            "families", "bands", "transfer_bands", "band_correlation", "measured"});
  if (root.at("schema").as_integer() != kSchema)
    root.at("schema").fail("expected 1, found " + root.at("schema").dump());
  Calibration out;
  out.gpu = root.at("gpu").as_string();
  if (const auto note = root.find("note")) out.note = note->as_string();
  if (const auto whose = root.find("families_of")) out.families_of = whose->as_string();
  if (const auto conditions = root.find("conditions")) {
    for (const std::string& name : conditions->keys()) out.conditions[name] = conditions->at(name).as_string();
  }
  if (const auto machine = root.find("machine")) out.machine = read_scalars(*machine, machine_scalar_names());
  if (const auto probed = root.find("probed")) out.machine.merge(read_scalars(*probed, probed_scalar_names()));
  if (const auto power = root.find("power")) out.power = read_scalars(*power, power_scalar_names());
  if (const auto sets = root.find("families")) {
    if (!sets->is_object()) sets->fail("expected an object of kernel sets");
    for (const std::string& set : sets->keys()) {
      check_name(*sets, set, kKernelSets, "a kernel set");
      const JsonValue families = sets->at(set);
      if (!families.is_object()) families.fail("expected an object of kernel families");
      check_keys(families, family_names(), "a kernel family");
      for (const std::string& family : families.keys()) {
        out.families[set + "." + family] = read_scalars(families.at(family), family_scalar_names());
      }
    }
  }
  read_error_bands(root, out);
  if (const auto measured = root.find("measured")) read_measured(*measured, out);
  return out;
}

Calibration load_calibration(const std::string& gpu_name, const std::string& fallback) {
  const std::string own = file_of(gpu_name);
  const std::string other = file_of(fallback);
  if (!file_exists(own) && !file_exists(other)) {
    throw BadInput("no calibration for '" + gpu_name + "': expected " + data_folder() + "/calibration/" + gpu_name +
                   ".json or " + (fallback.empty() ? "a fallback" : fallback + ".json") + " beside it" +
                   did_you_mean(gpu_name, json_file_names(data_folder() + "/calibration")));
  }
  const std::string& path = file_exists(own) ? own : other;
  Calibration calibration = parse_calibration(read_text_file(path), path);
  calibration.inherited = path != own;
  return calibration;
}

Calibration calibration_for(const Gpu& gpu, const std::string& file) {
  if (file.empty()) return load_calibration(gpu.name, gpu.calibration);
  Calibration calibration = parse_calibration(read_text_file(file), file);
  calibration.inherited = calibration.gpu != gpu.name;
  if (!calibration.inherited) return calibration;
  const std::vector<std::string> names = gpu_names();
  if (std::find(names.begin(), names.end(), calibration.gpu) != names.end()) return calibration;
  throw BadInput(file + ": /gpu: expected " + gpu.name + " or another GPU on file, found '" +
                 calibration.gpu.substr(0, 60) + "'" + did_you_mean(calibration.gpu, names));
}

std::string to_json(const Calibration& calibration) {
  nlohmann::ordered_json out;
  out["schema"] = kSchema;
  out["gpu"] = calibration.gpu;
  if (!calibration.note.empty()) out["note"] = calibration.note;
  if (!calibration.conditions.empty()) out["conditions"] = calibration.conditions;
  if (!calibration.families_of.empty()) out["families_of"] = calibration.families_of;
  const auto [read, probed] = by_section(calibration.machine);
  out["machine"] = scalars_to_json(read);
  if (!probed.empty()) out["probed"] = scalars_to_json(probed);
  if (!calibration.power.empty()) out["power"] = scalars_to_json(calibration.power);
  out["families"] = nlohmann::ordered_json::object();
  for (const auto& [name, scalars] : calibration.families) {
    const auto dot = name.find('.');
    if (dot == std::string::npos) throw Error(ExitCode::our_bug, "calibration family '" + name + "' has no kernel set");
    out["families"][name.substr(0, dot)][name.substr(dot + 1)] = scalars_to_json(scalars);
  }
  out["bands"] = bands_to_json(calibration.bands);
  if (!calibration.transfer_bands.empty()) out["transfer_bands"] = bands_to_json(calibration.transfer_bands);
  for (const auto& [name, formats] : calibration.measured) out["measured"][name] = formats;
  for (const auto& [name, c] : calibration.band_correlation) {
    out["band_correlation"][name] = {{"same_class", c.same_class}, {"other_class", c.other_class}, {"rows", c.rows}};
    if (c.card > 0) out["band_correlation"][name]["card"] = c.card;
  }
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace plumbline
