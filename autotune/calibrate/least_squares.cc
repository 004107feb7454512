#include "autotune/calibrate/least_squares.h"

#include <Eigen/Dense>
#include <cmath>

namespace longhaul {
namespace {

// With `below` more rows of zeros.
Eigen::MatrixXd matrix_of(const JacobianColumns& jacobian, Eigen::Index below) {
  const auto columns = static_cast<Eigen::Index>(jacobian.size());
  const auto rows = jacobian.empty() ? 0 : static_cast<Eigen::Index>(jacobian.front().size());
  Eigen::MatrixXd matrix = Eigen::MatrixXd::Zero(rows + below, columns);
  for (Eigen::Index i = 0; i < columns; ++i)
    matrix.col(i).head(rows) = Eigen::VectorXd::Map(jacobian[static_cast<std::size_t>(i)].data(), rows);
  return matrix;
}

std::vector<double> list_of(const Eigen::VectorXd& vector) {
  return {vector.data(), vector.data() + vector.size()};
}

}  // namespace

std::vector<double> damped_step(const JacobianColumns& jacobian, const std::vector<double>& residuals, double damping) {
  const auto parameters = static_cast<Eigen::Index>(jacobian.size());
  const auto rows = static_cast<Eigen::Index>(residuals.size());
  if (parameters == 0) return {};
  Eigen::MatrixXd stacked = matrix_of(jacobian, parameters);
  for (Eigen::Index i = 0; i < parameters; ++i)
    stacked(rows + i, i) = std::sqrt(damping) * stacked.col(i).head(rows).norm();
  Eigen::VectorXd right = Eigen::VectorXd::Zero(rows + parameters);
  right.head(rows) = -Eigen::VectorXd::Map(residuals.data(), rows);
  return list_of(stacked.colPivHouseholderQr().solve(right));
}

// J^T J = R^T R, so its inverse is R^-1 times its transpose: the diagonal holds the squares of R^-1's rows.
std::vector<double> standard_deviations(const JacobianColumns& jacobian) {
  const auto n = static_cast<Eigen::Index>(jacobian.size());
  if (n == 0) return {};
  const Eigen::MatrixXd qr = matrix_of(jacobian, 0).householderQr().matrixQR().topRows(n);
  const Eigen::MatrixXd inverse = qr.triangularView<Eigen::Upper>().solve(Eigen::MatrixXd::Identity(n, n));
  return list_of(inverse.rowwise().norm());
}

}  // namespace longhaul
