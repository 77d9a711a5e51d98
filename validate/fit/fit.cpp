#include "validate/fit/fit.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "arch/error.hpp"
#include "validate/statistics.hpp"

namespace plumbline {

namespace {

using Eigen::Index;

/// One fit under way: the rows it sees, the box of its logarithms, and the loss.
class Descent {
 public:
  Descent(const FitProblem& problem, const std::vector<std::size_t>& rows, const FitOptions& options)
      : problem_(problem), rows_(rows), options_(options), low_(size()), high_(size()) {
    for (Index j = 0; j < size(); ++j) {
      const FitParameter& p = problem.parameters[static_cast<std::size_t>(j)];
      if (!(p.low > 0) || !(p.low <= p.start) || !(p.start <= p.high) || !std::isfinite(p.high)) {
        throw BadInput("fit: " + p.name + ": expected 0 < low <= start <= high");
      }
      low_[j] = std::log(p.low);
      high_[j] = std::log(p.high);
    }
  }

  Index size() const { return static_cast<Index>(problem_.parameters.size()); }
  Eigen::VectorXd clamp(const Eigen::VectorXd& theta) const { return theta.cwiseMax(low_).cwiseMin(high_); }
  bool on_bound(const Eigen::VectorXd& theta, Index j) const {
    return theta[j] - low_[j] < 1e-9 || high_[j] - theta[j] < 1e-9;
  }

  Eigen::VectorXd residuals(const Eigen::VectorXd& theta) const {
    std::vector<double> values(static_cast<std::size_t>(size()));
    for (Index j = 0; j < size(); ++j) values[static_cast<std::size_t>(j)] = std::exp(theta[j]);
    std::vector<double> predicted(rows_.size());
    problem_.predict(values, rows_, predicted);
    Eigen::VectorXd r(static_cast<Index>(rows_.size()));
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      r[static_cast<Index>(i)] = std::log(predicted[i] / problem_.measured_s[rows_[i]]);
    }
    return r;
  }

  double loss(const Eigen::VectorXd& r) const {
    const double knee = options_.absolute_from;
    double sum = 0;
    for (Index i = 0; i < r.size(); ++i) {
      const double size = std::abs(r[i]);
      sum += weight(i) * (size > knee ? size : 0.5 * (size * size / knee + knee));
    }
    return sum;
  }

  /// Weighted normal equations of the quadratic that lies above the loss and touches it at `r`.
  void linearize(const Eigen::VectorXd& theta, const Eigen::VectorXd& r, Eigen::MatrixXd& curvature,
                 Eigen::VectorXd& slope) const {
    Eigen::MatrixXd jacobian(r.size(), size());
    for (Index j = 0; j < size(); ++j) {
      Eigen::VectorXd up = theta, down = theta;
      up[j] = std::min(theta[j] + options_.difference, high_[j]);
      down[j] = std::max(theta[j] - options_.difference, low_[j]);
      const double width = up[j] - down[j];
      if (width > 0) {
        jacobian.col(j) = (residuals(up) - residuals(down)) / width;
      } else {
        jacobian.col(j).setZero();
      }
    }
    Eigen::VectorXd weights(r.size());
    for (Index i = 0; i < r.size(); ++i) weights[i] = weight(i) / std::max(std::abs(r[i]), options_.absolute_from);
    curvature = jacobian.transpose() * weights.asDiagonal() * jacobian;
    slope = jacobian.transpose() * weights.cwiseProduct(r);
  }

 private:
  double weight(Index i) const { return problem_.weights[rows_[static_cast<std::size_t>(i)]]; }

  const FitProblem& problem_;
  const std::vector<std::size_t>& rows_;
  const FitOptions& options_;
  Eigen::VectorXd low_, high_;
};

Eigen::VectorXd logs_of(const std::vector<double>& values) {
  Eigen::VectorXd theta(static_cast<Index>(values.size()));
  for (std::size_t j = 0; j < values.size(); ++j) theta[static_cast<Index>(j)] = std::log(values[j]);
  return theta;
}

/// The damped step from `theta` inside the box. A parameter on its bound that wants out is held there, or it would
/// falsify the step of the others.
Eigen::VectorXd damped_step(const Descent& descent, const Eigen::VectorXd& theta, Eigen::MatrixXd curvature,
                            Eigen::VectorXd slope, double damping) {
  for (Index j = 0; j < slope.size(); ++j) {
    Eigen::VectorXd moved = theta;
    moved[j] -= slope[j] > 0 ? 1e-6 : -1e-6;
    const bool held = slope[j] == 0 || descent.clamp(moved)[j] == theta[j];
    if (held) {
      curvature.row(j).setZero();
      curvature.col(j).setZero();
      curvature(j, j) = 1;
      slope[j] = 0;
    }
    curvature(j, j) *= 1 + damping;
  }
  return descent.clamp(theta - curvature.ldlt().solve(slope));
}

struct Point {
  Eigen::VectorXd theta, residuals;
  double loss = 0;
};

/// One accepted Levenberg-Marquardt step, or false when none lowers the loss by more than the tolerance.
bool improve(const Descent& descent, const FitOptions& options, double& damping, Point& at) {
  Eigen::MatrixXd curvature;
  Eigen::VectorXd slope;
  descent.linearize(at.theta, at.residuals, curvature, slope);
  for (; damping < 1e8; damping *= 4) {
    Point next;
    next.theta = damped_step(descent, at.theta, curvature, slope, damping);
    next.residuals = descent.residuals(next.theta);
    next.loss = descent.loss(next.residuals);
    if (!(next.loss < at.loss)) continue;
    const bool enough = at.loss - next.loss > options.tolerance * at.loss;
    at = std::move(next);
    damping = std::max(damping / 9, 1e-9);
    return enough;
  }
  return false;
}

/// Steps along one parameter at a time, halving: choices of plan make kinks that a slope does not see past.
void polish(const Descent& descent, Point& at) {
  for (double width : {0.2, 0.1, 0.05, 0.02, 0.01}) {
    for (Index j = 0; j < descent.size(); ++j) {
      for (double sign : {1.0, -1.0}) {
        Point next;
        next.theta = at.theta;
        next.theta[j] += sign * width;
        next.theta = descent.clamp(next.theta);
        next.residuals = descent.residuals(next.theta);
        next.loss = descent.loss(next.residuals);
        if (next.loss < at.loss) at = std::move(next);
      }
    }
  }
}

double median_size(const Eigen::VectorXd& r) {
  std::vector<double> sizes(static_cast<std::size_t>(r.size()));
  for (Index i = 0; i < r.size(); ++i) sizes[static_cast<std::size_t>(i)] = std::abs(r[i]);
  return median(std::move(sizes));
}

FitResult fit_from(const FitProblem& problem, const std::vector<std::size_t>& rows, const std::vector<double>& start,
                   const FitOptions& options, bool polished) {
  if (rows.empty() || rows.size() < problem.parameters.size()) {
    throw BadInput("fit: " + std::to_string(rows.size()) + " rows for " + std::to_string(problem.parameters.size()) +
                   " scalars: expected at least one row a scalar");
  }
  const Descent descent(problem, rows, options);
  Point at;
  at.theta = descent.clamp(logs_of(start));
  at.residuals = descent.residuals(at.theta);
  at.loss = descent.loss(at.residuals);
  FitResult result;
  result.loss_before = at.loss;
  result.median_before = median_size(at.residuals);
  for (int round = 0; round < (polished ? 2 : 1) && !problem.parameters.empty(); ++round) {
    double damping = 1e-3;
    while (result.steps < (round + 1) * options.max_steps) {
      ++result.steps;
      if (!improve(descent, options, damping, at)) break;
    }
    if (polished) polish(descent, at);
  }
  for (Index j = 0; j < descent.size(); ++j) {
    result.values.push_back(std::exp(at.theta[j]));
    if (descent.on_bound(at.theta, j)) result.at_bound.push_back(static_cast<std::size_t>(j));
  }
  result.loss_after = at.loss;
  result.median_after = median_size(at.residuals);
  return result;
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo): the same on every machine, unlike std::hash.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

}  // namespace

FitResult fit(const FitProblem& problem, const std::vector<std::size_t>& rows, const FitOptions& options) {
  std::vector<double> start;
  for (const FitParameter& parameter : problem.parameters) start.push_back(parameter.start);
  return fit_from(problem, rows, start, options, options.polished);
}

std::vector<double> cross_validated_residuals(const FitProblem& problem, const std::vector<std::size_t>& rows,
                                              const std::vector<bool>& trained, const std::vector<int>& fold_of,
                                              int folds, const std::vector<double>& start, const FitOptions& options) {
  std::vector<double> residuals(rows.size());
  for (int fold = 0; fold < folds; ++fold) {
    std::vector<std::size_t> seen, unseen, position;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (fold_of[rows[i]] != fold) {
        if (trained[rows[i]]) seen.push_back(rows[i]);
      } else {
        unseen.push_back(rows[i]);
        position.push_back(i);
      }
    }
    if (unseen.empty()) continue;
    const FitResult result = fit_from(problem, seen, start, options, false);
    std::vector<double> predicted(unseen.size());
    problem.predict(result.values, unseen, predicted);
    for (std::size_t i = 0; i < unseen.size(); ++i) {
      residuals[position[i]] = std::log(problem.measured_s[unseen[i]] / predicted[i]);
    }
  }
  return residuals;
}

std::vector<int> deal_folds(const std::vector<std::string>& texts, int folds) {
  std::vector<std::string> distinct = texts;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<std::pair<std::uint64_t, std::string>> dealt;
  for (std::string& text : distinct) {
    const std::uint64_t hash = hash_of(text);
    dealt.emplace_back(hash, std::move(text));
  }
  std::sort(dealt.begin(), dealt.end());
  std::vector<std::pair<std::string, int>> fold_of_text;
  for (std::size_t i = 0; i < dealt.size(); ++i) {
    fold_of_text.emplace_back(std::move(dealt[i].second), static_cast<int>(i % static_cast<std::size_t>(folds)));
  }
  std::sort(fold_of_text.begin(), fold_of_text.end());
  std::vector<int> result;
  for (const std::string& text : texts) {
    result.push_back(std::lower_bound(fold_of_text.begin(), fold_of_text.end(), std::make_pair(text, -1))->second);
  }
  return result;
}

}  // namespace plumbline
