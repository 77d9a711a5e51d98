#include "validate/fit/power_search.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

namespace plumbline {
namespace {

using SearchPoint = std::vector<double>;
struct Corner {
  SearchPoint x;
  double loss = 0;
};

SearchPoint mixed(const SearchPoint& a, const SearchPoint& b, double t) {  // a + t (b - a)
  SearchPoint out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) out[i] = a[i] + t * (b[i] - a[i]);
  return out;
}

/// One descent of at most `most` evaluations.
SearchPoint descend(const std::function<double(const SearchPoint&)>& loss, const SearchPoint& start, double step,
                    int most) {
  std::vector<Corner> simplex{{start, loss(start)}};
  for (std::size_t i = 0; i < start.size(); ++i) {
    SearchPoint x = start;
    x[i] -= step;
    simplex.push_back({x, loss(x)});
  }
  const auto by_loss = [](const Corner& a, const Corner& b) { return a.loss < b.loss; };
  for (int used = static_cast<int>(simplex.size()); used < most; ++used) {
    std::sort(simplex.begin(), simplex.end(), by_loss);
    if (simplex.back().loss - simplex.front().loss < 1e-9 * std::abs(simplex.front().loss)) break;
    SearchPoint centre(start.size(), 0);
    for (std::size_t i = 0; i + 1 < simplex.size(); ++i) {
      for (std::size_t k = 0; k < centre.size(); ++k) centre[k] += simplex[i].x[k] / static_cast<double>(start.size());
    }
    Corner& worst = simplex.back();
    const auto at = [&](double t) {
      Corner c{mixed(centre, worst.x, t), 0};
      c.loss = loss(c.x);
      return c;
    };
    Corner reflected = at(-1);
    if (reflected.loss < simplex.front().loss) {
      Corner expanded = at(-2);
      worst = expanded.loss < reflected.loss ? expanded : reflected;
    } else if (reflected.loss < simplex[simplex.size() - 2].loss) {
      worst = reflected;
    } else if (Corner inside = at(reflected.loss < worst.loss ? -0.5 : 0.5);
               inside.loss < std::min(worst.loss, reflected.loss)) {
      worst = inside;
    } else {
      for (std::size_t i = 1; i < simplex.size(); ++i) {
        simplex[i].x = mixed(simplex[0].x, simplex[i].x, 0.5);
        simplex[i].loss = loss(simplex[i].x);
      }
    }
  }
  return std::min_element(simplex.begin(), simplex.end(), by_loss)->x;
}

}  // namespace

std::vector<double> simplex_search(const std::function<double(const SearchPoint&)>& loss, SearchPoint start,
                                   double step, int most) {
  start = descend(loss, start, step, most / 2);
  return descend(loss, start, step / 2, most / 2);
}

namespace {

/// Columns enter the free set by their gradient and leave it at zero.
Eigen::VectorXd solve_non_negative(const Eigen::MatrixXd& a, const Eigen::VectorXd& b) {
  const Eigen::Index n = a.cols();
  const Eigen::VectorXd scale = a.colwise().norm().transpose().cwiseMax(1e-300);
  const Eigen::MatrixXd scaled = a * scale.cwiseInverse().asDiagonal();
  const Eigen::MatrixXd gram = scaled.transpose() * scaled;
  const Eigen::VectorXd target = scaled.transpose() * b;
  Eigen::VectorXd x = Eigen::VectorXd::Zero(n);
  std::vector<bool> free(static_cast<std::size_t>(n), false);
  const auto solve_free = [&] {
    std::vector<Eigen::Index> in;
    for (Eigen::Index i = 0; i < n; ++i) {
      if (free[static_cast<std::size_t>(i)]) in.push_back(i);
    }
    const auto k = static_cast<Eigen::Index>(in.size());
    Eigen::MatrixXd g(k, k);
    Eigen::VectorXd t(k), z = Eigen::VectorXd::Zero(n);
    for (Eigen::Index i = 0; i < k; ++i) {
      t[i] = target[in[static_cast<std::size_t>(i)]];
      for (Eigen::Index j = 0; j < k; ++j) {
        g(i, j) = gram(in[static_cast<std::size_t>(i)], in[static_cast<std::size_t>(j)]) + (i == j ? 1e-12 : 0);
      }
    }
    const Eigen::VectorXd found = g.ldlt().solve(t);
    for (Eigen::Index i = 0; i < k; ++i) z[in[static_cast<std::size_t>(i)]] = found[i];
    return z;
  };
  for (Eigen::Index round = 0; round < 3 * n; ++round) {
    const Eigen::VectorXd gradient = target - gram * x;
    Eigen::Index enters = -1;
    for (Eigen::Index i = 0; i < n; ++i) {
      if (free[static_cast<std::size_t>(i)] || gradient[i] <= 1e-9) continue;
      if (enters < 0 || gradient[i] > gradient[enters]) enters = i;
    }
    if (enters < 0) break;
    free[static_cast<std::size_t>(enters)] = true;
    for (;;) {
      const Eigen::VectorXd z = solve_free();
      double step = 1;
      for (Eigen::Index i = 0; i < n; ++i) {
        if (free[static_cast<std::size_t>(i)] && z[i] <= 0) step = std::min(step, x[i] / (x[i] - z[i] + 1e-300));
      }
      x += step * (z - x);
      if (step >= 1) break;
      for (Eigen::Index i = 0; i < n; ++i) {
        if (free[static_cast<std::size_t>(i)] && x[i] <= 1e-12) {
          free[static_cast<std::size_t>(i)] = false;
          x[i] = 0;
        }
      }
    }
  }
  return x.cwiseQuotient(scale);
}

}  // namespace

std::vector<double> non_negative_least_squares(const std::vector<double>& a, const std::vector<double>& b) {
  const auto rows = static_cast<Eigen::Index>(b.size());
  const auto columns = static_cast<Eigen::Index>(b.empty() ? 0 : a.size() / b.size());
  const Eigen::VectorXd x = solve_non_negative(Eigen::Map<const Eigen::MatrixXd>(a.data(), rows, columns),
                                               Eigen::Map<const Eigen::VectorXd>(b.data(), rows));
  return {x.data(), x.data() + x.size()};
}

}  // namespace plumbline
