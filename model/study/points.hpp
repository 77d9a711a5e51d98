// A study's points: which questions they are, by number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/question/question.hpp"
#include "model/study.hpp"

namespace plumbline {

/// `count` values from one to the other, both with a unit or the last one's.
std::vector<std::string> evenly_spaced(const std::string& place, const std::string& from, const std::string& to,
                                       std::int64_t count);

/// Throws BadInput where names, words or numbers of a study can't be meant, whatever the point: as far as can be told
/// without a prediction.
void check_study(const Study& study, const std::string& place);

/// What a study's base asks: as llm and op do without flags, then its settings.
Inquiry base_question(const Study& study);
/// Throws BadInput where a model, a phase, a GPU or an operator is missing.
void require_all(const Inquiry& question);
/// The flag as messages name it.
std::string place_of_setting(const std::string& name);

class StudyPoints {
 public:
  explicit StudyPoints(const Study& study);

  std::int64_t count() const { return count_; }
  const std::vector<std::string>& names() const { return names_; }
  /// The place of a point on every axis.
  void places(std::int64_t point, std::vector<std::uint32_t>& out) const;
  /// The base with the axes' settings. `out` is changed as little as it can be.
  void ask(const std::vector<std::uint32_t>& places, Inquiry& out) const;
  /// Values of all names, in their order.
  void values(const std::vector<std::uint32_t>& places, std::vector<const std::string*>& out) const;
  /// Equal for points of one machine, and near for points that share plans; the same on every axis but others last.
  std::int64_t machine_order(const std::vector<std::uint32_t>& places) const;

 private:
  const Study& study_;
  Inquiry base_;
  std::vector<std::string> names_, where_;  // where_: as messages name them
  std::vector<bool> of_machine_;            // by axis
  std::int64_t count_ = 1;
};

}  // namespace plumbline
