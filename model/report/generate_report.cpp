// A whole answer of a model as a table, JSON and CSV.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>

#include "arch/format.hpp"
#include "model/report/json_parts.hpp"
#include "model/report/ops_batch_row.hpp"
#include "model/report/report.hpp"
#include "model/words.hpp"
#include "ops/csv.hpp"

namespace plumbline {
namespace {

/// Memory is fullest at the last step, or in the prefill where the prompt's activations are more than the cache.
const StepPrediction& fullest(const GeneratePrediction& all) {
  return all.steps > 0 && all.last.graph.memory.total() > all.prefill.graph.memory.total() ? all.last : all.prefill;
}

std::string head(const GenerateReport& r, const TextStyle& style) {
  const StepReport& q = r.question;
  const Gpu& card = q.machine.gpu();
  std::string first = q.llm.name + ", generate, on " + std::to_string(q.workload.parallel.ranks()) + " x " + card.title;
  if (card.title != card.name) first += " (" + card.name + ")";
  const auto usual = [](bool given) { return given ? "" : " (default)"; };
  std::string lengths = "batch " + std::to_string(q.workload.batch) + usual(q.given.batch) + ", prompt " +
                        std::to_string(q.workload.prompt) + usual(q.given.length);
  if (q.workload.cached > 0) lengths += " behind " + std::to_string(q.workload.cached) + " cached tokens";
  lengths += ", output " + std::to_string(r.output) + usual(r.output_given);
  return style.bold(first) + "\n" + question_lines(q, lengths) + "\n";
}

std::string answer(const GenerateReport& r, const TextStyle& style) {
  const GeneratePrediction& all = r.all;
  std::string out = memory_lines(fullest(all).graph.memory, r.question.fit, style);
  out += labelled("latency", style.bold(format(all.latency)) + "  (5-95 % band " + format(all.low) + " to " +
                                 format(all.high) + ")  until the last token of the whole batch");
  out += labelled("TTFT", format(all.ttft()) + " until the first token: the prefill");
  if (const auto tpot = all.tpot()) {
    out += labelled("TPOT", format(*tpot) + " per output token in the mean of " + std::to_string(all.steps) +
                                " decode steps: " + format(all.first.latency) + " the first, " +
                                format(all.last.latency) + " the last");
  }
  std::string rate = format(all.tokens / all.latency.in(units::s)) + " output tokens/s";
  if (!r.question.fit.fits) rate += ", were there room for it";
  out += labelled("throughput", rate);
  if (all.energy) {
    const Joules token = *all.energy / all.tokens;
    out += labelled("energy", format(*all.energy) + " (band " + format(*all.energy_low) + " to " +
                                  format(*all.energy_high) + "), " + format(token) + " per output token (" +
                                  format(1.0 * units::J / token) + " tokens/J), " + format(*all.power()) + " mean" +
                                  (all.prefill.graph.ranks > 1 ? " of a GPU" : ""));
  }
  return out + "\n";
}

std::string phases(const GenerateReport& r, const TextStyle& style) {
  return phase_columns(r).text(2, style) + (r.all.steps > 0 ? "  MFU and MBU of decode: of the last step\n\n" : "\n");
}

std::string operators(const GenerateReport& r, const TextStyle& style) {
  std::vector<OperatorSum> rows = r.all.ops;
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.time > b.time; });
  const auto most = static_cast<std::size_t>(r.question.top == 0 ? 12 : r.question.top);
  Seconds others;
  for (std::size_t i = most; i < rows.size(); ++i) others += rows[i].time;
  const std::size_t cut = rows.size() > most ? rows.size() - most : 0;
  rows.resize(rows.size() - cut);
  Columns table = sum_columns(rows, r.all.latency);
  if (cut > 0) {
    table.add({std::to_string(cut) + " others", "", "", "", format(others), percent(others / r.all.latency)});
  }
  return table.text(2, style) + "  total: all executions, with the launch gaps behind them; longest first\n";
}

}  // namespace

Columns sum_columns(const std::vector<OperatorSum>& operators, Seconds all) {
  using enum Columns::Align;
  Columns table(
      {{"operator"}, {"phase"}, {"kind"}, {"count", right}, {"total", right}, {"of all", right}, {"energy", right}});
  for (const OperatorSum& o : operators) {
    const bool whole = o.count == std::floor(o.count) && o.count < 1e15;
    table.add({o.name, std::string(word_of(kPhaseWords, o.phase)), o.op,
               whole ? std::to_string(static_cast<std::int64_t>(o.count)) : format(o.count), format(o.time),
               percent(o.time / all), o.energy ? format(*o.energy) : "-"});
  }
  return table;
}

Columns phase_columns(const GenerateReport& r) {
  using enum Columns::Align;
  const GeneratePrediction& all = r.all;
  Columns table({{"phase"},
                 {"steps", right},
                 {"each", right},
                 {"total", right},
                 {"of all", right},
                 {"power", right},
                 {"energy", right},
                 {"MFU", right},
                 {"MBU", right}});
  const auto gpus = static_cast<double>(all.prefill.graph.ranks);
  const auto row = [&](const char* phase, const StepPrediction& step, std::int64_t steps, Seconds total,
                       const std::optional<Joules>& energy) {
    table.add({phase, std::to_string(steps), format(total / static_cast<double>(steps)), format(total),
               percent(total / all.latency), energy ? format(*energy / total / gpus) : "-",
               energy ? format(*energy) : "-", percent(mfu_of(step, r.question.machine.gpu()).value),
               percent(step.mbu)});
  };
  row("prefill", all.prefill, 1, all.prefill.latency, all.prefill.energy);
  if (all.steps > 0) row("decode", all.last, all.steps, all.decode, all.decode_energy);
  return table;
}

std::string generate_table(const GenerateReport& r, const TextStyle& style) {
  const StepReport& q = r.question;
  std::string out = head(r, style) + answer(r, style) + phases(r, style) + operators(r, style);
  const auto sentences = all_assumptions(q.machine, q.llm.assumptions, q.remarks);
  if (!sentences.empty()) out += "\n";
  return out + bullets("assumptions", sentences, style);
}

std::string generate_json(const GenerateReport& r) {
  const StepReport& q = r.question;
  const GeneratePrediction& all = r.all;
  const Gpu& card = q.machine.gpu();
  const auto seconds = [](Seconds t, const char* key) { return finite(t.in(units::s), key); };
  Json out;
  out["schema"] = "plumbline.llm.v1";
  put_model(out, q);
  out["phase"] = "generate";
  out["batch"] = q.workload.batch;
  out["prompt"] = q.workload.prompt;
  out["context"] = q.workload.cached;
  out["output"] = r.output;
  put_machine(out, q);
  put_sizes(out, q);
  out["latency_s"] = seconds(all.latency, "latency_s");
  out["latency_low_s"] = seconds(all.low, "latency_low_s");
  out["latency_high_s"] = seconds(all.high, "latency_high_s");
  out["ttft_s"] = seconds(all.ttft(), "ttft_s");
  out["tpot_s"] = optional_figure(all.tpot(), units::s, "tpot_s");
  out["tokens_per_s"] = finite(all.tokens / all.latency.in(units::s), "tokens_per_s");
  out["energy_J"] = optional_figure(all.energy, units::J, "energy_J");
  out["energy_low_J"] = optional_figure(all.energy_low, units::J, "energy_low_J");
  out["energy_high_J"] = optional_figure(all.energy_high, units::J, "energy_high_J");
  out["power_W"] = optional_figure(all.power(), units::W, "power_W");
  const double token_J = all.energy ? all.energy->in(units::J) / all.tokens : 0;
  out["energy_per_token_J"] = all.energy ? Json(finite(token_J, "energy_per_token_J")) : Json(nullptr);
  out["tokens_per_J"] = all.energy ? Json(finite(1 / token_J, "tokens_per_J")) : Json(nullptr);
  const Joules decode_J = all.decode_energy.value_or(Joules{});
  out["decode"] = {{"steps", all.steps},
                   {"steps_priced", all.priced},
                   {"latency_s", seconds(all.decode, "latency_s")},
                   {"first_s", seconds(all.first.latency, "first_s")},
                   {"last_s", seconds(all.last.latency, "last_s")},
                   {"energy_J", all.energy ? Json(finite(decode_J.in(units::J), "energy_J")) : Json(nullptr)}};
  put_fit(out, q.fit);
  out["memory_bytes"] = memory_json(fullest(all).graph.memory, card.memory.usable_capacity());
  out["time_share"] = shares_json(all.share);
  out["flops"] = finite(all.flops.in(units::FLOP), "flops");
  out["dram_bytes"] = finite(all.dram_bytes.in(units::B), "dram_bytes");
  Json rows = Json::array();
  for (const OperatorSum& o : all.ops) {
    rows.push_back({{"phase", word_of(kPhaseWords, o.phase)},
                    {"name", o.name},
                    {"op", o.op},
                    {"count", finite(o.count, "count")},
                    {"total_s", seconds(o.time, "total_s")},
                    {"flops", finite(o.flops.in(units::FLOP), "flops")},
                    {"dram_bytes", finite(o.dram_bytes.in(units::B), "dram_bytes")},
                    {"energy_J", optional_figure(o.energy, units::J, "energy_J")}});
  }
  out["ops"] = std::move(rows);
  out["assumptions"] = all_assumptions(q.machine, q.llm.assumptions, q.remarks);
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string generate_csv(const GenerateReport& r) {
  std::string out = "phase,name,op,count,total_us,share,flops,dram_bytes,energy_J,fits\n";
  for (const OperatorSum& o : r.all.ops) {
    std::string line(word_of(kPhaseWords, o.phase));
    for (const std::string* text : {&o.name, &o.op}) {
      line += ',';
      append_csv_field(line, *text);
    }
    for (const double figure :
         {o.count, o.time.in(units::us), o.time / r.all.latency, o.flops.in(units::FLOP), o.dram_bytes.in(units::B)}) {
      line += ',';
      append_number(line, figure);
    }
    line += ',';
    if (o.energy) append_number(line, o.energy->in(units::J));
    out += line + (r.question.fit.fits ? ",true\n" : ",false\n");
  }
  return out;
}

}  // namespace plumbline
