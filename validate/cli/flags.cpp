#include "validate/cli/flags.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "model/question/words.hpp"
#include "model/words.hpp"
#include "validate/cli/asked.hpp"

namespace plumbline {

namespace {

std::int64_t whole_number(std::string_view flag, const std::string& text, std::int64_t least) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > kMost) {
    throw BadInput(std::string(flag) + ": expected a whole number from " + std::to_string(least) + " to " +
                   std::to_string(kMost) + ", found '" + text + "'");
  }
  return value;
}

/// `what`: "a percentage", for the message. A number that is not one, such as nan, would be a gate that never closes.
double number_from_zero(std::string_view flag, std::string_view what, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < 0) {
    throw BadInput(std::string(flag) + ": expected " + std::string(what) + " from 0, found '" + text + "'");
  }
  return value;
}

double percentage(std::string_view flag, const std::string& text) {
  return number_from_zero(flag, "a percentage", text);
}

std::string choice(std::string_view flag, const std::vector<std::string>& words, const std::string& text) {
  if (std::find(words.begin(), words.end(), text) != words.end()) return text;
  std::string expected;
  for (std::size_t i = 0; i < words.size(); ++i) {
    expected += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  }
  throw BadInput(std::string(flag) + ": expected " + expected + ", found '" + text + "'" + did_you_mean(text, words));
}

template <class E, std::size_t N>
E word(std::string_view flag, const std::array<Word<E>, N>& words, const std::string& text) {
  std::vector<std::string> known;
  for (const Word<E>& each : words) known.emplace_back(each.text);
  choice(flag, known, text);
  return std::find_if(words.begin(), words.end(), [&](const Word<E>& each) { return each.text == text; })->value;
}

/// The parts of "gemm,rmsnorm"; what is empty is none.
std::vector<std::string> listed(std::string_view flag, const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, end - at));
    if (parts.back().empty()) throw BadInput(std::string(flag) + ": expected names with commas, found '" + text + "'");
    at = end + 1;
  }
  return parts;
}

void read_ops(Flags& flags, const std::string& text) {
  for (std::string& op : listed("--ops", text)) flags.ops.push_back(std::move(op));
  need_operators(flags.ops);
}

void read_free(Flags& flags, const std::string& text) {
  for (const std::string& scalar : listed("--free", text)) flags.free.push_back(parse_free_scalar(scalar));
}

using Text = const std::string&;
void nothing(Flags&, Text) {}

const std::vector<Flag> kFlags{
    // machine
    {"--gpu", "NAME|FILE.json", false, "GPU [the rows' own, the recording's, the card at hand]",
     [](Flags& f, Text t) { f.gpu = t; }},
    {"--set", "PATH=VALUE", true, "override a number of the descriptor: memory.bandwidth=6TB/s (repeatable)",
     [](Flags& f, Text t) { f.sets.push_back(parse_override(t)); }},
    {"--calibration", "FILE.json", false, "coefficients instead of the GPU's own",
     [](Flags& f, Text t) { f.calibration = t; }},
    {"--clock", "burst|steady", false, "only this clock: rows are priced, steps measured at it [as the rows say; both]",
     [](Flags& f, Text t) { f.clock = word("--clock", kClockWords, t); }},
    {"--stack", "NAME|FILE.json", false, "whose kernels run: a name from 'predict-model list stacks', or a file",
     [](Flags& f, Text t) { f.stack = t; }},
    {"--kernels", "own|library|ideal", false, "the stack's with ours before them, without ours, or the roofline floor",
     [](Flags& f, Text t) { f.kernels = word("--kernels", kKernelSetWords, t); }},
    {"--attention", "PROVIDER", false, "whose attention runs where it is not ours: tensorrt-llm, flash-attention, ...",
     [](Flags& f, Text t) { f.attention = t; }},
    {"--collective", "auto|A[:P]", false,
     "how collectives go, A one of auto, ring, tree, nvls, nvls-tree, collnet-direct, collnet-chain, pat, "
     "hierarchical, rail-aligned, one-shot or two-shot; P: ll, ll128 or simple, of NCCL [auto]",
     [](Flags& f, Text t) { set_collective(f.way, "--collective", t); }},
    // which rows
    {"--where", "FILTER", true,
     "keep COLUMN=A[,B...], COLUMN~TEXT, COLUMN!~TEXT, or a shape key: 'S>=127' (repeatable)",
     [](Flags& f, Text t) { f.where.push_back(parse_row_filter(t)); }},
    {"--ops", "LIST", true, "keep these operators: gemm,rmsnorm", read_ops},
    {"--min-us", "US", false, "leave out rows that took less",
     [](Flags& f, Text t) { f.min_time = number_from_zero("--min-us", "microseconds", t) * units::us; }},
    {"--least-cap", "PERCENT", false, "rows that draw this share of the power limit or more [0]",
     [](Flags& f, Text t) { f.least_cap_percent = percentage("--least-cap", t); }},
    {"--most-cap", "PERCENT", false, "rows that draw this share of the power limit or less [1000]",
     [](Flags& f, Text t) { f.most_cap_percent = percentage("--most-cap", t); }},
    // what to write where
    {"--format", "", false, "", [](Flags& f, Text t) { f.format = t; }},  // the value is the command's
    {"--report", "FILE", false, "write the report to this file instead of stdout",
     [](Flags& f, Text t) { f.report = t; }},
    {"--out", "FILE.json", false,
     "write what was measured (for replay), the calibration that was made, or compare's two timelines as one trace",
     [](Flags& f, Text t) { f.out = t; }},
    {"--rows", "FILE.csv", false, "write every row beside its prediction", [](Flags& f, Text t) { f.rows = t; }},
    {"--fail-over", "PERCENT", false, "exit 1 when the median error of a class is above this",
     [](Flags& f, Text t) { f.fail_over_percent = percentage("--fail-over", t); }},
    {"--kernels-table", "", false, "print achieved against demanded as Markdown instead of the report", nothing},
    // fits
    {"--family", "NAME", false, "kernel family to fit, such as gemm", [](Flags& f, Text t) { f.family = t; }},
    {"--free", "LIST", true, "coefficients to fit: NAME[=START[:LOW:HIGH]], machine.NAME [all of the family]",
     read_free},
    {"--source", "TEXT", false, "what the rows are, for the calibration's provenance",
     [](Flags& f, Text t) { f.source = t; }},
    {"--unbalanced", "", false, "do not weigh size classes equally (stacks always are)", nothing},
    // card, recordings
    {"--quick", "", false, "run: data/studies/quick.csv, half a minute; calibrate: without energies, 5 s", nothing},
    {"--study", "FILE.csv", true,
     "what to measure: op,dtype,shape,cache,clock; step: model,phase,batch,... (repeatable)",
     [](Flags& f, Text t) { f.studies.push_back(t); }},
    {"--alone", "", false, "measure our own kernels without the library's beside them", nothing},
    {"--by-distance", "", false, "a table of classes and distances, each card left out in turn", nothing},
    {"--by-gpu", "", false, "a line for each GPU and set of kernels", nothing},
    {"--gpus", "N", false, "how many GPUs [1]", [](Flags& f, Text t) { f.gpus = whole_number("--gpus", t, 1); }},
    {"--nccl", "FILE", false, "with --gpus: libnccl.so.2, to measure beside our collectives [looked for]",
     [](Flags& f, Text t) { f.nccl = t; }},
    {"--only", "SECTION[:GPUS]", false,
     "with --gpus: one of checks, own, nccl, fabric, copies, overlap, beside, disk; the last ones of one GPU too [all]",
     [](Flags& f, Text t) { f.only = t; }},
    {"--probes", "FILE.json", false, "write what the probes found, for calibrate --replay",
     [](Flags& f, Text t) { f.probes = t; }},
    {"--replay", "PROBES.json", false, "take what --probes wrote instead of probing the card",
     [](Flags& f, Text t) { f.replay = t; }},
    {"--repeat", "RECORDING", false, "how far another recording of the same cases is from it, by class",
     [](Flags& f, Text t) { f.repeat = t; }},
    // one step
    {"--model", "NAME|FILE.json", false, "whose steps a profiler saw: 'predict-model list models', or a config.json",
     [](Flags& f, Text t) { f.model = t; }},
    {"--phase", "prefill|decode|train", false, "of MODEL",
     [](Flags& f, Text t) {
       f.phase = choice("--phase", {"prefill", "decode", "train"}, t);
     }},
    {"--batch", "N", false, "sequences [1]", [](Flags& f, Text t) { f.batch = whole_number("--batch", t, 1); }},
    {"--context", "N", false, "decode: tokens already in the KV cache [1024]",
     [](Flags& f, Text t) { f.context = whole_number("--context", t, 0); }},
    {"--prompt", "N", false, "prefill: tokens per sequence [1024]",
     [](Flags& f, Text t) { f.prompt = whole_number("--prompt", t, 1); }},
    {"--page", "N", false, "decode: tokens per page of the KV cache, 0 for none [64]",
     [](Flags& f, Text t) { f.page = whole_number("--page", t, 0); }},
    {"--dtype", "bf16|fp16|fp8", false, "of weights and activations [the model's]",
     [](Flags& f, Text t) {
       f.dtype = choice("--dtype", {"bf16", "fp16", "fp8"}, t);
     }},
    {"--tp", "N", false, "GPUs that share the layers of a step by tensor parallelism [1]",
     [](Flags& f, Text t) { f.tensor = whole_number("--tp", t, 1); }},
    {"--dp", "N", false, "train: replicas that share the batch, a GPU each [1]",
     [](Flags& f, Text t) { f.replicas = whole_number("--dp", t, 1); }},
    {"--sp", "", false, "with --tp: the residual stream split by tokens too (sequence parallelism)", nothing},
    {"--layers", "N", false, "of the model's layers, the first ones [all]",
     [](Flags& f, Text t) { f.layers = whole_number("--layers", t, 1); }},
    {"--check", "", false, "hold the steps' operators against fp64 references instead of timing them", nothing},
};

}  // namespace

const std::vector<Flag>& flag_table() { return kFlags; }

const Flag* find_flag(std::string_view name) {
  const auto found = std::find_if(kFlags.begin(), kFlags.end(), [&](const Flag& flag) { return flag.name == name; });
  return found == kFlags.end() ? nullptr : &*found;
}

void refuse(const Flags& flags, const std::vector<std::string_view>& names, const std::string& why) {
  for (const std::string_view name : names) {
    if (flags.has(name)) throw BadInput(std::string(name) + ": has no meaning " + why);
  }
}

}  // namespace plumbline
