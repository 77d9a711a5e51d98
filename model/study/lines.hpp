// Lines of a sweep's output.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/study.hpp"

namespace plumbline {

/// A value as a command line has it: of JSON a number where it is one.
class SweepLines {
 public:
  SweepLines(SweepFormat format, const std::vector<std::string>& names, const std::vector<std::string>& columns);

  /// What stands before all lines, and behind.
  std::string head() const;
  std::string tail() const;
  /// Of the first line of all the comma before it is left out.
  void append(const std::vector<const std::string*>& settings, const std::vector<StudyFigure>& figures,
              std::string_view error, bool first, std::string& out) const;

 private:
  void append_csv(const std::vector<const std::string*>& settings, const std::vector<StudyFigure>& figures,
                  std::string_view error, std::string& out) const;
  void append_json(const std::vector<const std::string*>& settings, const std::vector<StudyFigure>& figures,
                   std::string_view error, std::string& out) const;

  SweepFormat format_;
  std::vector<std::string> names_, columns_;
  std::vector<std::string> keys_;  // "\"name\":" of settings, columns and the error
};

/// As a JSON string, quotes and all.
void append_json_string(std::string& out, std::string_view text);
/// A value of an axis as JSON: a number, or a word.
void append_json_value(std::string& out, const std::string& value);

}  // namespace plumbline
