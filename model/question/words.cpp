#include "model/question/words.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <sstream>

#include "arch/format.hpp"
#include "model/stacks/common/collective_choice.hpp"
#include "ops/facts/precision.hpp"
#include "ops/whole_number.hpp"

namespace plumbline {
namespace {

/// What the runtime keeps of the memory unless the user says: serving engines are started with 0.9 of it by default
/// (vLLM's gpu_memory_utilization; TensorRT-LLM's free_gpu_memory_fraction, of what weights leave).
constexpr double kUsualReserve = 0.1;

bool is_bare_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
}

double number_of(const std::string& text, const std::string& flag, const std::string& expected) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || after != end) throw BadInput(flag + ": expected " + expected + "; found '" + text + "'");
  return value;
}

/// Counts of a file, separated by white space or commas.
std::vector<double> counts_of(const std::string& flag, const std::string& file) {
  constexpr std::size_t kMost = 1 << 20;
  std::string text = read_text_file(file, 16.0 * units::MiB);
  for (char& c : text) {
    if (c == ',') c = ' ';
  }
  std::istringstream in(text);
  std::vector<double> counts;
  double sum = 0;
  for (std::string word; in >> word;) {
    const double count = number_of(word, flag + ": " + file, "counts of tokens, one an expert");
    if (!(count >= 0) || counts.size() == kMost) throw BadInput(flag + ": " + file + ": expected counts from 0");
    counts.push_back(count);
    sum += count;
  }
  if (!(sum > 0)) throw BadInput(flag + ": " + file + ": expected counts of tokens, one an expert; found none");
  return counts;
}

}  // namespace

std::int64_t whole_number(const std::string& flag, const std::string& text, std::int64_t least, std::int64_t most) {
  std::string_view digits = text;
  std::int64_t unit = 1;
  if (!digits.empty() && (digits.back() == 'k' || digits.back() == 'K')) unit = std::int64_t{1} << 10;
  if (!digits.empty() && digits.back() == 'M') unit = std::int64_t{1} << 20;
  if (unit > 1) digits.remove_suffix(1);
  const std::optional<std::int64_t> value = parse_whole(digits);
  if (!value || *value > most / unit || *value * unit < least) {
    throw BadInput(flag + ": expected a whole number from " + std::to_string(least) + " to " + std::to_string(most) +
                   ", found '" + text + "'");
  }
  return *value * unit;
}

Watts watts_of(const std::string& flag, const std::string& text) {
  try {
    return parse_watts(is_bare_number(text) ? text + " W" : text);
  } catch (const BadInput& bad) {
    throw BadInput(flag + ": " + bad.what());
  }
}

Hertz megahertz_of(const std::string& flag, const std::string& text) {
  try {
    return parse_hertz(is_bare_number(text) ? text + " MHz" : text);
  } catch (const BadInput& bad) {
    throw BadInput(flag + ": " + bad.what());
  }
}

void set_precision(const std::string& flag, const std::string& text, Workload& workload) {
  const std::optional<Precision> precision = parse_precision(text);
  if (!precision) {
    throw BadInput(flag + ": expected bf16, fp16, fp8, int8, w4a16, w8a16, mxfp4 or nvfp4; found '" + text + "'" +
                   meant_precision(text,
                                   {"bf16", "fp16", "fp8", "int8", "w4a16", "w8a16", "mxfp4", "nvfp4", "fp32", "tf32"},
                                   false));
  }
  workload.precision = *precision;
  workload.precision_given = true;
}

void set_kv_dtype(const std::string& flag, const std::string& text, Workload& workload) {
  const std::optional<DType> type = parse_dtype(text);
  if (!type || (*type != DType::bf16 && *type != DType::fp16 && *type != DType::fp8)) {
    throw BadInput(flag + ": expected bf16, fp16 or fp8; found '" + text + "'" +
                   did_you_mean(text, {"bf16", "fp16", "fp8"}));
  }
  workload.kv_dtype = *type;
  workload.kv_dtype_given = true;
}

ExpertLoad expert_load_of(const std::string& flag, const std::string& text) {
  ExpertLoad load;
  if (text == "uniform") return load;
  constexpr std::string_view kPower = "power:";
  if (text.rfind(kPower, 0) == 0) {
    constexpr double kSteepest = 10;
    const std::string expected = "power:A with A from 0 to 10";
    load.power = number_of(text.substr(kPower.size()), flag, expected);
    if (!(load.power >= 0 && load.power <= kSteepest)) {
      throw BadInput(flag + ": expected " + expected + "; found '" + text + "'");
    }
    return load;
  }
  const std::string near = did_you_mean(text, {"uniform"});
  if (!near.empty() && !std::filesystem::exists(text)) {
    throw BadInput(flag + ": expected uniform, power:A or a file; found '" + text + "'" + near);
  }
  load.counts = counts_of(flag, text);
  return load;
}

std::string named_file_text(const std::string& value) {
  if (!looks_like_path(value)) return "";
  try {
    return read_text_file(value);
  } catch (const BadInput&) {  // a folder, or a file that whoever reads it will refuse
    return "";
  }
}

Bytes reserve_of(const std::string& text, Bytes capacity) {
  if (text.empty()) return kUsualReserve * capacity;
  const bool percent = text.back() == '%';
  if (!percent && text.find_first_not_of("0123456789.") != std::string::npos) {
    try {
      const Bytes bytes = parse_bytes(text);
      if (bytes < capacity) return bytes;
    } catch (const BadInput&) {
    }
  } else {
    const std::string digits = percent ? text.substr(0, text.size() - 1) : text;
    double value = -1;
    const char* end = digits.data() + digits.size();
    const auto [after, error] = std::from_chars(digits.data(), end, value);
    if (error == std::errc() && after == end && value >= 0 && value < 100) return value / 100 * capacity;
  }
  throw BadInput("--reserve: expected a share below 100% such as 10%, or a size below " + format(capacity) +
                 " such as 8GB; found '" + text + "'");
}

void set_collective(StackChoice& stack, const std::string& flag, const std::string& text) {
  const std::size_t colon = text.find(':');
  const bool names_protocol = colon == text.npos && std::any_of(kProtocolWords.begin(), kProtocolWords.end(),
                                                                [&](const auto& word) { return word.text == text; });
  const std::string algorithm = names_protocol ? "auto" : text.substr(0, colon);
  stack.collective = chosen_word(flag, kCollectiveWords, algorithm);
  stack.protocol = CollectiveProtocol::automatic;
  if (!names_protocol && colon == text.npos) return;
  stack.protocol = chosen_word(flag, kProtocolWords, names_protocol ? text : text.substr(colon + 1));
  if (has_protocol(stack.collective, stack.protocol)) return;
  throw BadInput(
      flag + ": expected a protocol that " + algorithm +
      " has (ring and tree: ll, ll128 and simple; nvls, nvls-tree, collnet-direct, collnet-chain and pat: "
      "simple; hierarchical and rail-aligned leave it to their calls, one-shot and two-shot are no kernels of NCCL); "
      "found '" +
      text + "'");
}

std::string collective_text(const StackChoice& stack) {
  std::string text(word_of(kCollectiveWords, stack.collective));
  if (stack.protocol != CollectiveProtocol::automatic)
    text += ":" + std::string(word_of(kProtocolWords, stack.protocol));
  return text;
}

}  // namespace plumbline
