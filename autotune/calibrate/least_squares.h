// Linear least squares for the steps of a Levenberg-Marquardt fit, by QR decomposition instead of normal equations,
// whose condition number is the square of the problem's. Its source is the one file that includes Eigen.
#pragma once

#include <vector>

namespace longhaul {

// A Jacobian J: one column for each parameter, each with one entry for each residual. No column is empty or zero.
using JacobianColumns = std::vector<std::vector<double>>;

// The step d that minimizes |J d + r|^2 + damping * |D d|^2, where D holds the lengths of J's columns (Madsen, Nielsen
// & Tingleff 2004, section 3.2, with Marquardt's scaling). damping > 0. One entry for each parameter; pure.
std::vector<double> damped_step(const JacobianColumns& jacobian, const std::vector<double>& residuals, double damping);

// Standard deviations of the parameters where the residuals have variance 1: the square roots of the diagonal of the
// inverse of J^T J. J has full column rank, which rows of prior belief give it. Pure.
std::vector<double> standard_deviations(const JacobianColumns& jacobian);

}  // namespace longhaul
