#include "model/machines.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "arch/error.hpp"
#include "arch/fabric/cluster.hpp"
#include "arch/files.hpp"
#include "arch/format.hpp"
#include "model/bands/step_bands.hpp"
#include "model/stacks/host.hpp"
#include "model/stacks/stack.hpp"
#include "ops/plan/kernel_counts.hpp"

namespace plumbline {
namespace {

/// The card that an inherited calibration was measured on; nothing where it has no descriptor.
std::optional<Gpu> donor_of(const Calibration& calibration) {
  if (!calibration.inherited) return std::nullopt;
  const std::vector<std::string> known = gpu_names();
  if (std::find(known.begin(), known.end(), calibration.gpu) == known.end()) return std::nullopt;
  return load_gpu(calibration.gpu);
}

/// A changed card as it was, where its descriptor says all that decides which scalars it has.
std::optional<Gpu> as_on_file(const Gpu& gpu) {
  if (!gpu.modified) return std::nullopt;
  const std::vector<std::string> known = gpu_names();
  if (std::find(known.begin(), known.end(), gpu.name) == known.end()) return std::nullopt;
  Gpu before = load_gpu(gpu.name);
  const bool same_card = before.generation == gpu.generation && before.calibration == gpu.calibration &&
                         before.process.energy_ratio == gpu.process.energy_ratio;
  return same_card ? std::optional(std::move(before)) : std::nullopt;
}

std::vector<std::string> new_assumptions(const Gpu& before, const Gpu& after) {
  std::vector<std::string> out;
  for (const std::string& sentence : after.assumptions) {
    const auto& known = before.assumptions;
    if (std::find(known.begin(), known.end(), sentence) == known.end()) out.push_back(sentence);
  }
  return out;
}

/// Counts of our kernels do not go with the card, so that all machines share them.
const std::shared_ptr<const KernelCounts>& own_counts() {
  static const std::shared_ptr<const KernelCounts> counts = load_kernel_counts("own_sm90");
  return counts;
}

/// Whole steps are a framework's on any card, so that all machines share their bands too.
const std::shared_ptr<const StepBands>& bands_of_steps() {
  static const std::shared_ptr<const StepBands> bands = [] {
    const std::string file = data_folder() + "/steps/bands.json";
    return std::make_shared<const StepBands>(parse_step_bands(read_text_file(file), file));
  }();
  return bands;
}

auto ordered(const MachineOptions& o) { return std::tie(o.stack, o.clock, o.power_cap, o.data, o.cluster, o.sm_clock); }

MeasuredHost load_host(const std::string& path_or_time) {
  if (!looks_like_path(path_or_time)) return host_of_time(path_or_time);
  return parse_host(read_text_file(path_or_time), path_or_time);
}

/// What a stack is called elsewhere, else the nearest name.
std::string meant_stack(const std::string& text, const std::vector<std::string>& known) {
  constexpr auto kOtherNames = std::to_array<std::array<std::string_view, 2>>({{"trtllm", "trt-llm"},
                                                                               {"trt_llm", "trt-llm"},
                                                                               {"tensorrt-llm", "trt-llm"},
                                                                               {"tensorrt_llm", "trt-llm"},
                                                                               {"tensorrt", "trt-llm"},
                                                                               {"pytorch", "hf-sdpa"},
                                                                               {"torch", "hf-sdpa"},
                                                                               {"transformers", "hf-sdpa"},
                                                                               {"huggingface", "hf-sdpa"},
                                                                               {"hf", "hf-sdpa"},
                                                                               {"roofline", "ideal"},
                                                                               {"plumbline", "own"}});
  for (const auto& [other, ours] : kOtherNames) {
    if (text == other) return " (did you mean '" + std::string(ours) + "'?)";
  }
  return did_you_mean(text, known);
}

Stack load_stack(const std::string& name_or_path) {
  std::string path = name_or_path;
  if (!looks_like_path(path)) {
    const std::vector<std::string> known = stack_names();
    if (std::find(known.begin(), known.end(), path) == known.end()) {
      throw BadInput("stack: unknown stack '" + path.substr(0, 60) + "'" + meant_stack(path, known) +
                     "; expected a file, or a name of predict-model list stacks");
    }
    path = data_folder() + "/stacks/" + path + ".json";
  }
  const std::string text = read_text_file(path);
  Stack stack = parse_stack(text, path);
  const std::vector<std::string> shipped = stack_names();
  if (std::find(shipped.begin(), shipped.end(), stack.name) != shipped.end()) {
    stack.recorded = text == read_text_file(data_folder() + "/stacks/" + stack.name + ".json");
  }
  return stack;
}

}  // namespace

Machine make_machine(const Gpu& gpu, const Calibration& calibration, const MachineOptions& options) {
  Stack stack =
      choose_stack(options.stack, [](const std::string& name) -> const Stack& { return machines().stack(name); });
  if (!options.stack.host.empty()) stack = on_host(stack, load_host(options.stack.host));
  const auto assembled = [&](const Gpu& card) {
    const MachineAids aids{donor_of(calibration), own_counts(), bands_of_steps(),
                           machines().cluster(card, options.cluster.empty() ? card.cluster : options.cluster)};
    return assemble_machine(card, calibration, stack, options, aids);
  };
  const std::optional<Gpu> before = as_on_file(gpu);
  return before ? assembled(*before).with(gpu, new_assumptions(*before, gpu)) : assembled(gpu);
}

Machine make_machine(const Gpu& gpu, const MachineOptions& options) {
  return make_machine(gpu, load_calibration(gpu.name, gpu.calibration), options);
}

bool MachineKey::operator<(const MachineKey& other) const {
  const auto less = [](const Override& a, const Override& b) {
    return std::tie(a.path, a.value) < std::tie(b.path, b.value);
  };
  if (gpu != other.gpu) return gpu < other.gpu;
  if (ordered(options) != ordered(other.options)) return ordered(options) < ordered(other.options);
  if (calibration_file != other.calibration_file) return calibration_file < other.calibration_file;
  return std::lexicographical_compare(overrides.begin(), overrides.end(), other.overrides.begin(),
                                      other.overrides.end(), less);
}

const Gpu& Machines::gpu(const std::string& name_or_path) {
  const std::scoped_lock lock(mutex_);
  const auto known = gpus_.find(name_or_path);
  return known != gpus_.end() ? known->second : gpus_.emplace(name_or_path, load_gpu(name_or_path)).first->second;
}

const Stack& Machines::stack(const std::string& name_or_path) {
  const std::scoped_lock lock(stacks_mutex_);
  std::shared_ptr<const Stack>& known = stacks_[name_or_path];
  if (!known) known = std::make_shared<const Stack>(load_stack(name_or_path));
  return *known;
}

std::shared_ptr<const Cluster> Machines::cluster(const Gpu& gpu, const std::string& name) {
  const GpuLinks& links = gpu.links;
  const std::string key = !name.empty() ? name
                                        : "assumed for " + gpu.name + " " + format(links.nvlink_per_direction) + " " +
                                              format(links.pcie_per_direction);
  const std::scoped_lock lock(stacks_mutex_);
  std::shared_ptr<const Cluster>& known = clusters_[key];
  if (!known) known = std::make_shared<const Cluster>(name.empty() ? assumed_cluster(gpu) : load_cluster(name));
  return known;
}

Machine Machines::get(const MachineKey& key) {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = machines_.find(key); known != machines_.end()) return known->second;
  }
  if (key.overrides.empty()) return made(key);
  const Machine machine = changed(key);
  const std::scoped_lock lock(mutex_);
  return machines_.emplace(key, machine).first->second;
}

Machine Machines::once(const MachineKey& key) { return key.overrides.empty() ? get(key) : changed(key); }

Machine Machines::made(const MachineKey& key) {
  const Gpu gpu = this->gpu(key.gpu);
  const std::scoped_lock lock(mutex_);
  if (const auto known = machines_.find(key); known != machines_.end()) return known->second;  // by another thread
  // descriptors of one name may take over different calibrations
  const auto file = std::tuple(gpu.name, gpu.calibration, key.calibration_file);
  auto calibration = calibrations_.find(file);
  if (calibration == calibrations_.end()) {
    calibration = calibrations_.emplace(file, calibration_for(gpu, key.calibration_file)).first;
  }
  return machines_.emplace(key, make_machine(gpu, calibration->second, key.options)).first->second;
}

/// The card as it is, with numbers changed: what was measured on it still is, of the card before.
Machine Machines::changed(const MachineKey& key) {
  MachineKey plain = key;
  plain.overrides.clear();
  const Machine before = get(plain);
  const Gpu gpu = load_gpu(key.gpu, key.overrides);
  if (gpu.process.energy_ratio != before.gpu().process.energy_ratio) {  // decides how energies are taken over
    return make_machine(gpu, before.calibration(), key.options);
  }
  return before.with(gpu, new_assumptions(before.gpu(), gpu));
}

Machines& machines() {
  static Machines all;
  return all;
}

std::vector<std::string> stack_names() { return data_names("stacks"); }

}  // namespace plumbline
