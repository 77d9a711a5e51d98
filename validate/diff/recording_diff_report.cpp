// A difference of recordings as text.
#include <algorithm>
#include <cmath>

#include "arch/format.hpp"
#include "validate/diff/recording_diff.hpp"
#include "validate/printed.hpp"
#include "validate/records.hpp"

namespace plumbline {
namespace {

using Cells = std::vector<std::string>;

/// The first column to the left, others to the right.
std::string aligned(const std::vector<Cells>& rows) {
  std::vector<std::size_t> widths;
  for (const Cells& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Cells& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      line += (line.empty() ? "" : "  ") + (i == 0 ? row[i] + space : space + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string change_text(double ratio) { return printed("%+.1f %%", 100 * (ratio - 1)); }

/// "-1.20 us": what the second takes less, or more, than the first.
std::string more_or_less(Seconds won) {
  if (won == Seconds{}) return "0 s";
  const Seconds size = won < Seconds{} ? -1.0 * won : won;
  return (won < Seconds{} ? "+" : "-") + format(size);
}

std::string energy_text(const std::optional<double>& ratio) { return ratio ? change_text(*ratio) : "-"; }

std::string limiter_text(const RecordedPair& pair) {
  if (pair.other_limiter()) return pair.before.limiter + " -> " + pair.after.limiter;
  return pair.before.limiter.empty() ? pair.after.limiter : pair.before.limiter;
}

std::string session_line(const char* side, const MeasuringSession& session) {
  return std::string(side) + session.card + ", driver " + session.driver + ", toolkit " + session.toolkit + ", " +
         session.date + "\n";
}

std::optional<double> ratio_of(const GroupDifference& g) {
  if (!g.energy_before || !g.energy_after) return std::nullopt;
  return *g.energy_after / *g.energy_before;
}

std::string group_table(const std::vector<GroupDifference>& groups) {
  std::vector<Cells> rows{
      {"group", "cases", "first", "second", "second takes", "", "energy", "quicker", "slower", "other limiter"}};
  for (const GroupDifference& g : groups) {
    rows.push_back({g.group, std::to_string(g.count), format(g.before), format(g.after),
                    more_or_less(g.before - g.after), change_text(g.after / g.before), energy_text(ratio_of(g)),
                    std::to_string(g.quicker), std::to_string(g.slower), std::to_string(g.other_limiters)});
  }
  return aligned(rows);
}

std::vector<const RecordedPair*> largest_changes(const RecordingDifference& difference, std::size_t most) {
  std::vector<const RecordedPair*> pairs;
  for (const RecordedPair& pair : difference.pairs) {
    if (!pair.whole_step()) pairs.push_back(&pair);
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const RecordedPair* a, const RecordedPair* b) {
    return std::abs(a->won().in(units::s)) > std::abs(b->won().in(units::s));
  });
  if (pairs.size() > most) pairs.resize(most);
  return pairs;
}

}  // namespace

std::string difference_table(const RecordingDifference& difference, std::size_t most) {
  std::string text = session_line("first   ", difference.before) + session_line("second  ", difference.after) + "\n";
  text += group_table(groups_of(difference));
  const std::vector<const RecordedPair*> pairs = largest_changes(difference, most);
  if (!pairs.empty()) {
    std::vector<Cells> rows{{"most changed", "first", "second", "second takes", "", "energy", "limiter"}};
    for (const RecordedPair* pair : pairs) {
      rows.push_back({pair->group + ": " + pair->name, format(pair->before.time), format(pair->after.time),
                      more_or_less(pair->won()), change_text(pair->time_ratio()), energy_text(pair->energy_ratio()),
                      limiter_text(*pair)});
    }
    text += "\n" + aligned(rows);
  }
  text += "\n" + std::to_string(difference.pairs.size()) + " compared; " + std::to_string(difference.only_before) +
          " in the first alone, " + std::to_string(difference.only_after) +
          " in the second; limiters are predicted, nothing measures them\n";
  return text;
}

namespace {

std::vector<FieldRecord> records_of(const RecordingDifference& difference) {
  std::vector<FieldRecord> records;
  for (const RecordedPair& pair : difference.pairs) {
    FieldRecord record{{"group", pair.group},
                       {"name", pair.name},
                       {"place", pair.place},
                       {"first_s", pair.before.time.in(units::s)},
                       {"second_s", pair.after.time.in(units::s)},
                       {"won_s", pair.won().in(units::s)},
                       {"time_ratio", pair.time_ratio()},
                       {"first_J", std::monostate()},
                       {"second_J", std::monostate()},
                       {"energy_ratio", std::monostate()},
                       {"first_limiter", pair.before.limiter},
                       {"second_limiter", pair.after.limiter}};
    constexpr std::size_t first_J = 7, second_J = 8, ratio = 9;
    if (pair.before.energy) record[first_J].second = pair.before.energy->in(units::J);
    if (pair.after.energy) record[second_J].second = pair.after.energy->in(units::J);
    if (pair.energy_ratio()) record[ratio].second = *pair.energy_ratio();
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace

std::string difference_csv(const RecordingDifference& difference) { return records_csv(records_of(difference)); }

std::string difference_json(const RecordingDifference& difference) {
  return records_json("plumbline.validate.diff.v1", "pairs", records_of(difference));
}

}  // namespace plumbline
