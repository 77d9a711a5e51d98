// PyTorch profiler's Chrome trace: https://github.com/pytorch/kineto (libkineto/src/output_json.cpp writes it). Launches
// have "cat" kernel, gpu_memcpy or gpu_memset and times in microseconds; "External id" joins them with the operator that
// launched them ("cpu_op", whose "Input Dims" are there where shapes were recorded).
#include <map>
#include <nlohmann/json.hpp>

#include "arch/error.hpp"
#include "arch/printable.hpp"
#include "validate/timeline/timeline.hpp"

namespace plumbline {
namespace {

using Json = nlohmann::json;

struct Call {
  std::string operation;
  std::vector<std::vector<std::int64_t>> sizes;
};

/// Lists of tensors are lists of lists: their tensors, one after another.
void add_sizes(const Json& dims, std::vector<std::vector<std::int64_t>>& into) {
  if (!dims.is_array()) return;
  const bool nested = std::any_of(dims.begin(), dims.end(), [](const Json& each) { return each.is_array(); });
  if (nested) {
    for (const Json& each : dims) add_sizes(each, into);
    return;
  }
  std::vector<std::int64_t>& sizes = into.emplace_back();
  for (const Json& each : dims) {
    if (each.is_number_integer()) sizes.push_back(each.get<std::int64_t>());
  }
}

double number_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return 0;
  if (found->is_number()) return found->get<double>();
  if (!found->is_string()) return 0;
  try {  // older profilers write numbers of "args" as text
    return std::stod(found->get<std::string>());
  } catch (const std::exception&) {
    return 0;
  }
}

std::int64_t whole_in(const Json& object, const char* key, std::int64_t otherwise) {
  return object.contains(key) ? static_cast<std::int64_t>(number_in(object, key)) : otherwise;
}

std::int64_t product_of(const Json& args, const char* key) {
  const auto found = args.find(key);
  if (found == args.end() || !found->is_array()) return 0;
  std::int64_t product = 1;
  for (const Json& each : *found) product *= each.is_number_integer() ? each.get<std::int64_t>() : 1;
  return product;
}

CardIdentity card_of(const Json& device) {
  CardIdentity card;
  card.name = printable(device.value("name", ""));
  card.compute_capability =
      std::to_string(whole_in(device, "computeMajor", 0)) + "." + std::to_string(whole_in(device, "computeMinor", 0));
  card.sms = whole_in(device, "numSms", 0);
  card.memory = number_in(device, "totalGlobalMem") * units::B;
  return card;
}

class Trace {
 public:
  /// Takes what is an event; true: it is not wanted any more.
  bool take(const Json& value) {
    if (!value.is_object() || !value.contains("ph")) return false;
    const auto category = value.find("cat");
    if (category == value.end() || !category->is_string() || value["ph"] != "X") return true;
    const std::string& what = category->get_ref<const std::string&>();
    const auto found = value.find("args");
    const Json args = found == value.end() ? Json::object() : *found;
    if (what == "cpu_op") take_call(value, args);
    else if (what == "kernel" || what == "Kernel") take_launch(value, args, false);
    else if (what == "gpu_memcpy" || what == "gpu_memset") take_launch(value, args, true);
    return true;
  }

  Timeline finished(const std::string& file, const Json& rest) {
    Timeline out;
    out.file = file;
    if (rest.is_object() && rest.contains("deviceProperties")) {
      for (const Json& device : rest["deviceProperties"]) {
        if (out.card.name.empty()) out.card = card_of(device);
      }
    }
    for (auto& [id, kernel] : launches_) {
      const auto call = calls_.find(id);
      kernel.call_number = id;
      if (call != calls_.end()) {
        kernel.call = call->second.operation;
        kernel.sizes = call->second.sizes;
      }
      out.kernels.push_back(std::move(kernel));
    }
    return out;
  }

 private:
  void take_call(const Json& event, const Json& args) {
    const std::int64_t id = whole_in(args, "External id", -1);
    if (id < 0) return;
    Call& call = calls_[id];
    call.operation = printable(event.value("name", ""));
    for (const char* key : {"Input Dims", "Input dims"}) {
      if (args.contains(key)) add_sizes(args[key], call.sizes);
    }
  }

  void take_launch(const Json& event, const Json& args, bool copy) {
    TimelineKernel kernel;
    kernel.kernel = printable(event.value("name", ""));
    kernel.start = number_in(event, "ts") * units::us;
    kernel.duration = number_in(event, "dur") * units::us;
    kernel.ctas = product_of(args, "grid");
    kernel.threads = product_of(args, "block");
    kernel.device = whole_in(args, "device", 0);
    kernel.stream = whole_in(args, "stream", 0);
    kernel.copy = copy;
    launches_.emplace_back(whole_in(args, "External id", -1), std::move(kernel));
  }

  std::map<std::int64_t, Call> calls_;
  std::vector<std::pair<std::int64_t, TimelineKernel>> launches_;
};

}  // namespace

Timeline read_pytorch_trace(const std::string& text, const std::string& file) {
  Trace trace;
  try {
    // Events are dropped as they come: a trace of steps is some hundred times as large as what is wanted of it.
    const Json rest = Json::parse(text, [&](int depth, Json::parse_event_t event, Json& value) {
      return event != Json::parse_event_t::object_end || depth > 2 || !trace.take(value);
    });
    return trace.finished(file, rest);
  } catch (const Json::exception& error) {
    throw BadInput(file + ": expected a trace of PyTorch's profiler: " + printable(error.what()));
  }
}

}  // namespace plumbline
