#include "arch/gpu/gpu.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/format.hpp"
#include "arch/gpu/checks.hpp"
#include "arch/gpu/fields.hpp"
#include "arch/gpu/layers.hpp"
#include "arch/gpu/relative.hpp"

namespace plumbline {
namespace {

using namespace descriptor;

constexpr const char* kTensorRates = "sm.tensor_flop_per_clk.";

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

bool is_overridden(const std::vector<Override>& overrides, const std::string& path) {
  return std::any_of(overrides.begin(), overrides.end(), [&](const Override& o) { return o.path == path; });
}

/// What the descriptor's own words say about the number at `pointer`: the longest matching key of `sources`, else
/// `source`.
std::string stated_source(const Layer& layer, const std::string& pointer) {
  const JsonValue root = layer.document.root();
  if (const auto sources = root.find("sources")) {
    for (std::string part = pointer; !part.empty(); part.erase(part.rfind('/'))) {
      if (const auto text = sources->find(part)) return text->as_string();
    }
  }
  const auto source = root.find("source");
  return source ? source->as_string() : layer.label + " (no source given)";
}

void check_sources(const JsonValue& root) {
  if (const auto sources = root.find("sources")) {
    if (!sources->is_object())
      sources->fail("expected an object of descriptor paths, found " + sources->dump().substr(0, 60));
    for (const std::string& key : sources->keys()) {
      std::vector<std::string> pointers;
      bool known = false;
      for (const auto* list : {&number_paths(), &word_paths()}) {
        for (const std::string& path : *list) {
          pointers.push_back(pointer_of(path));
          known |= starts_with(pointers.back() + "/", key + "/");
        }
      }
      if (!known)
        throw BadInput(sources->place() + ": unknown path '" + key.substr(0, 80) + "'" + did_you_mean(key, pointers));
      if (const auto text = sources->find(key)) text->as_string();
    }
  }
}

/// Sources and assumptions gathered while a descriptor is put together, and the document itself.
class Assembly {
 public:
  Assembly(std::vector<Layer> layers, bool shipped)
      : layers_(std::move(layers)), shipped_(shipped), document_(JsonDocument::parse("{}", layers_.back().label)) {
    for (const Layer& layer : layers_) add_layer(layer);
    note_inherited();
    derive_l2_bandwidth();
    derive_idle_power();
  }

  /// Numbers that were derived are derived again; those that were measured or stated stay what they are.
  void apply(const std::vector<Override>& overrides) {
    const Hertz boost = boost_clock();
    for (const Override& o : overrides) apply(o);
    read_descriptor(document_.root(), overrides);  // a bad value is refused by its path before anything is derived
    if (is_overridden(overrides, "tensor_bf16"))
      expand_tensor_shorthand("set", dense_bf16_peak(), [](const std::string&) { return false; });
    const bool l2_moves =
        is_derived("l2.bandwidth") && (is_overridden(overrides, "sm_count") || is_overridden(overrides, "boost_clock"));
    if (!is_overridden(overrides, "l2.bandwidth") && (l2_moves || is_overridden(overrides, "l2.bytes_per_sm_clk"))) {
      forget("l2.bandwidth");
      derive_l2_bandwidth();
    } else if (!is_derived("l2.bandwidth") && !is_overridden(overrides, "l2.bandwidth")) {
      follow_boost_clock(boost_clock() / boost);
    }
    const bool idle_moves = is_derived("idle_power") && is_overridden(overrides, "tdp");
    if (!is_overridden(overrides, "idle_power") && (idle_moves || is_overridden(overrides, "idle_power_fraction"))) {
      forget("idle_power");
      derive_idle_power();
    }
  }

  GpuDescriptor read(const std::vector<Override>& overrides) const {
    GpuDescriptor d = read_descriptor(document_.root(), overrides);
    // Name, title and datasheet belong to the one card they describe: what extends the card has its own or none.
    const JsonValue own = layers_.back().document.root();
    d.gpu.name = own.at("name").as_string();
    d.gpu.title = own.has("title") ? own.at("title").as_string() : d.gpu.name;
    if (!find_path(own, "datasheet.tensor_peak")) d.gpu.datasheet_tensor_peak = {};
    d.gpu.sources = sources_;
    d.gpu.assumptions = assumptions_;
    if (is_derived("l2.bandwidth")) d.gpu.l2_bytes_per_sm_clk = d.l2_bytes_per_sm_clk;
    if (is_derived("idle_power")) d.gpu.idle_power_fraction = d.idle_power_fraction;
    return d;
  }

 private:
  void apply(const Override& o) {
    refuse_unknown_override(o);
    const auto old = find_path(document_.root(), o.path);
    const std::string was = old ? old->dump() : "absent";
    std::string value = o.value;
    try {
      if (const auto factor = relative_factor(o.value)) {
        if (o.path == "tensor_bf16" && !old) {
          value = format_exact(*factor * bf16_peak_at_boost().in(units::TFLOP_per_s)) + " TFLOP/s";
        } else if (old) {
          value = scaled(*old, *factor);
        } else {
          throw BadInput("expected a value: the descriptor has none to change");
        }
      }
    } catch (const BadInput& bad) {
      throw BadInput("set " + o.path + "=" + o.value + ": " + bad.what());
    }
    document_.set(o.path, value);
    const std::string how = value == o.value ? value : value + " (" + o.value + ")";
    sources_[pointer_of(o.path)] = "set " + o.path + "=" + o.value + " (was " + was + ")";
    assumptions_.push_back(o.path + " set to " + how + " (was " + was + ")");
  }

  FlopRate bf16_peak_at_boost() const {
    const JsonValue root = document_.root();
    const auto rate = find_path(root, kTensorRates + std::string("bf16"));
    if (!rate) throw BadInput("expected a GPU with a bf16 tensor path");
    return root.at("sm_count").as_number() * rate->as_number() * (units::FLOP * root.at("boost_clock").as_hertz());
  }

  bool is_derived(const std::string& path) const {
    const auto source = sources_.find(pointer_of(path));
    return source != sources_.end() && starts_with(source->second, "derived: ");
  }

  /// So that it is derived again, and said once.
  void forget(const std::string& path) {
    document_.set(path, "null");
    std::erase_if(assumptions_, [&](const std::string& sentence) {
      return starts_with(sentence, path + " derived: ") || starts_with(sentence, path + " assumed: ");
    });
  }

  void add_layer(const Layer& layer) {
    const JsonValue root = layer.document.root();
    refuse_unknown_keys(root);
    check_sources(root);
    const FlopRate known_dense = dense_bf16_peak();
    document_ = document_.merged_with(layer.document);
    for (const auto* list : {&number_paths(), &word_paths()}) {
      for (const std::string& path : *list) {
        if (!find_path(root, path)) continue;
        const std::string pointer = pointer_of(path);
        const std::string said = stated_source(layer, pointer);
        const bool own = &layer == &layers_.back();
        sources_[pointer] = own ? said : "inherited from " + layer.label + ": " + said;
        setter_[path] = &layer;
      }
    }
    if (const auto list = root.find("assumptions")) {
      for (const JsonValue& sentence : list->elements()) assumptions_.push_back(sentence.as_string());
    }
    if (const auto rate = root.find("tensor_bf16")) {
      expand_tensor_shorthand(layer.label, known_dense,
                              [&](const std::string& path) { return find_path(root, path).has_value(); });
    }
  }

  /// The datasheet's dense bf16 peak of the card that is being extended; zero for a family.
  FlopRate dense_bf16_peak() const {
    const auto sheet = find_path(document_.root(), "datasheet.tensor_peak.bf16");
    return sheet ? sheet->as_flop_rate() : FlopRate();
  }

  /// `known_dense`: the datasheet's peak, or else what the family's rate gives at this count and clock.
  static void refuse_sparse_shorthand(const JsonValue& rate, FlopRate known_dense) {
    const FlopRate given = rate.as_flop_rate();
    constexpr double kTolerance = 0.025;  // a brochure prints exactly twice the dense peak
    if (known_dense > FlopRate() && std::abs(given / known_dense - 2.0) <= 2.0 * kTolerance) {
      rate.fail("looks like a sparse (2:4) rate: expected the dense peak (" + format(known_dense) +
                " for what it extends), found " + format(given) +
                " (a chip twice as fast? then give sm.tensor_flop_per_clk)");
    }
  }

  /// tensor_bf16 is the dense peak at boost: it gives FLOP/clk/SM for bf16, and the other types keep their ratio to it.
  template <class IsExplicit>
  void expand_tensor_shorthand(const std::string& label, FlopRate known_dense, IsExplicit is_explicit) {
    const JsonValue root = document_.root();
    const JsonValue rate = root.at("tensor_bf16");
    const auto old = find_path(root, kTensorRates + std::string("bf16"));
    const double old_rate = old ? old->as_number() : 0;
    if (!(old_rate > 0)) rate.fail("expected a family with a bf16 tensor path below it");
    const double sm_count = root.at("sm_count").as_number();
    const Hertz boost = root.at("boost_clock").as_hertz();
    if (!(sm_count > 0) || !(boost > Hertz())) rate.fail("expected sm_count and boost_clock above zero beside it");
    const FlopRate old_peak = sm_count * old_rate * (units::FLOP * boost);
    const double scale = rate.as_flop_rate() / old_peak;
    // more SMs or a faster clock may well double the whole; a sparse rate doubles what one SM does in a clock
    // (a brochure's clock may be 8 % below the boost clock)
    if (scale > 1.8 && scale < 2.1) refuse_sparse_shorthand(rate, known_dense > FlopRate() ? known_dense : old_peak);
    std::vector<std::pair<std::string, std::string>> scaled;  // `root` must not be read once the document changes
    for (const std::string& path : number_paths()) {
      const auto value = starts_with(path, kTensorRates) ? find_path(root, path) : std::nullopt;
      if (value && !is_explicit(path)) scaled.emplace_back(path, format_exact(value->as_number() * scale));
    }
    for (const auto& [path, value] : scaled) {
      document_.set(path, value);
      setter_.erase(path);  // no longer inherited as it was
      sources_[pointer_of(path)] =
          "derived from tensor_bf16 of " + label + ", keeping the family's ratios between types";
    }
    assumptions_.push_back("tensor rates of all types scaled by " + format(scale) +
                           " to meet tensor_bf16 at the boost clock");
  }

  /// Whether what a lower layer says of `path` is no assumption about the card on top of it.
  bool is_given(const std::string& path) const {
    if (starts_with(path, "datasheet.")) return true;
    if (path == "l2.bytes_per_sm_clk" || path == "idle_power_fraction" || path == "l3_size") return true;  // helpers
    if (!shipped_) return false;
    return starts_with(path, "sm.") || starts_with(path, "links.") || starts_with(path, "process.") ||
           path == "generation";
  }

  /// One sentence a lower layer: what was taken over from it. For the cards on file the SM's limits and the links are
  /// facts of the architecture; only what may differ from card to card is an assumption.
  void note_inherited() {
    for (const Layer& layer : layers_) {
      if (&layer == &layers_.back()) continue;
      std::string list;
      for (const auto* paths : {&number_paths(), &word_paths()}) {
        for (const std::string& path : *paths) {
          const auto it = setter_.find(path);
          if (it == setter_.end() || it->second != &layer || is_given(path)) continue;
          // the counts of clusters are one fact
          const std::string fact = starts_with(path, "clusters.") ? "clusters" : path;
          if (list.size() < fact.size() || list.compare(list.size() - fact.size(), fact.size(), fact) != 0) {
            list += (list.empty() ? "" : ", ") + fact;
          }
        }
      }
      if (!list.empty()) assumptions_.push_back("inherited from " + layer.label + ": " + list);
    }
  }

  void derive_l2_bandwidth() {
    const JsonValue root = document_.root();
    const auto per_clk = find_path(root, "l2.bytes_per_sm_clk");
    const auto sm_count = root.find("sm_count");
    const auto boost = root.find("boost_clock");
    if (find_path(root, "l2.bandwidth") || !per_clk || !sm_count || !boost) return;
    const Bandwidth total = sm_count->as_number() * (per_clk->as_number() * units::B * boost->as_hertz());
    const std::string how =
        format(per_clk->as_number()) + " B/clk/SM x " + sm_count->dump() + " SMs x " + boost->as_string();
    sources_["/l2/bandwidth"] = "derived: " + how + "; " + sources_["/l2/bytes_per_sm_clk"];
    assumptions_.push_back("l2.bandwidth derived: " + how + " = " + format(total));
    document_.set("l2.bandwidth", format_exact(total.in(units::B_per_s)) + " B/s");
  }

  Hertz boost_clock() const { return document_.root().at("boost_clock").as_hertz(); }

  /// A stated L2 bandwidth is that at the boost clock: its slices run in step with the SMs (peaks.cpp, l2_peak).
  void follow_boost_clock(double ratio) {
    if (ratio == 1) return;
    const Bandwidth total = ratio * document_.root().at("l2").at("bandwidth").as_bandwidth();
    assumptions_.push_back("l2.bandwidth goes with the boost clock: " + format(total));
    document_.set("l2.bandwidth", format_exact(total.in(units::B_per_s)) + " B/s");
  }

  void derive_idle_power() {
    const JsonValue root = document_.root();
    const auto fraction = root.find("idle_power_fraction");
    const auto tdp = root.find("tdp");
    if (root.has("idle_power") || !fraction || !tdp) return;
    const Watts idle = fraction->as_number() * tdp->as_watts();
    const std::string how = format(fraction->as_number()) + " of the TDP";
    sources_["/idle_power"] = "derived: " + how + "; " + sources_["/idle_power_fraction"];
    assumptions_.push_back("idle_power assumed: " + how + " = " + format(idle));
    document_.set("idle_power", format_exact(idle.in(units::W)) + " W");
  }

  std::vector<Layer> layers_;
  bool shipped_;
  JsonDocument document_;
  std::map<std::string, const Layer*> setter_;  ///< dotted path -> the topmost layer that has it
  std::map<std::string, std::string> sources_;
  std::vector<std::string> assumptions_;
};

Gpu assemble(JsonDocument top, const std::string& label, bool shipped, const std::vector<Override>& overrides) {
  const std::string place = top.root().place();
  const std::string file = place.substr(0, place.size() - std::string(": /").size());
  Assembly assembly(extends_chain(std::move(top), label), shipped);
  GpuDescriptor d = assembly.read({});
  check_physics(d, file);
  check_dense_rates(d.gpu, file);
  if (overrides.empty()) return std::move(d.gpu);
  assembly.apply(overrides);
  d = assembly.read(overrides);
  check_physics(d, "set on " + d.gpu.name);
  d.gpu.modified = true;
  for (const Override& o : overrides) d.gpu.set.push_back(o.path);
  return std::move(d.gpu);
}

}  // namespace

Gpu load_gpu(const std::string& name_or_path, const std::vector<Override>& overrides) {
  if (looks_like_path(name_or_path)) {
    return assemble(JsonDocument::read_file(name_or_path), name_or_path, false, overrides);
  }
  const std::string path = gpu_file(name_or_path);
  return assemble(JsonDocument::read_file(path), std::filesystem::path(path).stem().string(), true, overrides);
}

Gpu parse_gpu(const std::string& json_text, const std::string& place, const std::vector<Override>& overrides) {
  return assemble(JsonDocument::parse(json_text, place), place, false, overrides);
}

double ClusterSlots::share(std::int64_t ctas) const {
  if (sms == 0 || ctas <= 1) return 1;
  const auto all = static_cast<double>(sms);
  if (ctas <= 2) return static_cast<double>(2 * of_2) / all;
  return ctas <= 4 ? static_cast<double>(4 * of_4) / all : static_cast<double>(8 * of_8) / all;
}

GpuNumbers derived_again(const Gpu& gpu, const GpuNumbers& before, const GpuNumbers& changed,
                         const std::vector<std::string>& set) {
  GpuNumbers out = changed;
  const auto follows = [&set](const char* path) { return std::find(set.begin(), set.end(), path) == set.end(); };
  const auto equal = [](double ratio) { return std::abs(ratio - 1) < 1e-9; };
  if (changed.l2.bandwidth == before.l2.bandwidth && follows("l2.bandwidth")) {
    const auto of_sms = [&gpu](const GpuNumbers& g) {
      return static_cast<double>(g.sm_count) * (gpu.l2_bytes_per_sm_clk * units::B * g.boost_clock);
    };
    const double clock = changed.boost_clock / before.boost_clock;
    const bool derived = gpu.l2_bytes_per_sm_clk > 0 && equal(of_sms(before) / before.l2.bandwidth);
    if (!derived && clock != 1) out.l2.bandwidth = clock * before.l2.bandwidth;
    if (derived && (clock != 1 || changed.sm_count != before.sm_count)) out.l2.bandwidth = of_sms(changed);
  }
  const double fraction = gpu.idle_power_fraction;
  if (fraction > 0 && changed.tdp != before.tdp && changed.idle_power == before.idle_power && follows("idle_power") &&
      equal(before.idle_power / (fraction * before.tdp))) {
    out.idle_power = fraction * changed.tdp;
  }
  return out;
}

void check_numbers(const GpuNumbers& g) {
  const auto need = [](bool holds, const char* what, const char* expected) {
    if (!holds) throw BadInput(std::string("GPU numbers: ") + what + ": expected " + expected);
  };
  const auto positive = [&](double number, const char* what) {
    need(std::isfinite(number) && number > 0, what, "a number above zero");
  };
  positive(static_cast<double>(g.sm_count), "sm_count");
  positive(g.boost_clock.in(units::Hz), "boost_clock");
  positive(g.sm.fp32_flop_per_clk, "sm.fp32_flop_per_clk");
  positive(g.sm.sfu_op_per_clk, "sm.sfu_op_per_clk");
  positive(g.sm.issue_per_clk, "sm.issue_per_clk");
  positive(g.sm.smem_bytes_per_clk.in(units::B), "sm.smem_bytes_per_clk");
  positive(g.sm.l2_bytes_per_clk.in(units::B), "sm.l2_bytes_per_clk");
  positive(g.sm.smem.in(units::B), "sm.smem");
  positive(static_cast<double>(g.sm.threads), "sm.threads");
  positive(static_cast<double>(g.sm.registers), "sm.registers");
  positive(g.l2.size.in(units::B), "l2.size");
  positive(g.l2.bandwidth.in(units::B_per_s), "l2.bandwidth");
  positive(g.l2.latency.in(units::s), "l2.latency");
  positive(g.memory.capacity.in(units::B), "memory.capacity");
  positive(g.memory.bandwidth.in(units::B_per_s), "memory.bandwidth");
  positive(g.memory.latency.in(units::s), "memory.latency");
  positive(g.tdp.in(units::W), "tdp");
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const double rate = g.sm.tensor_flop_per_clk[static_cast<DType>(i)];
    need(std::isfinite(rate) && rate >= 0, "sm.tensor_flop_per_clk", "rates that are not negative");
  }
  need(g.memory.ecc_share >= 0 && g.memory.ecc_share < 1, "memory.ecc_share", "a share of the memory below 1");
  need(g.memory.read_fraction >= 0 && g.memory.read_fraction <= 1, "memory.read_fraction", "a fraction of at most 1");
  need(g.base_clock <= g.boost_clock, "base_clock", "no more than the boost clock");
  need(g.idle_power < g.tdp, "idle_power", "less than the TDP");
}

std::vector<GpuParameter> gpu_parameters() { return descriptor::parameters(); }

std::vector<std::string> gpu_names() { return data_names("gpus"); }

}  // namespace plumbline
