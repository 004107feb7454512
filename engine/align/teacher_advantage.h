// What each token of an answer that a student drew is worth to it by a teacher's log-probabilities:
//   advantage  log p_teacher - log p_student
// Minus the advantage of a token that was drawn is an estimate, without bias, of the reverse divergence
// KL(p_student || p_teacher) of that place, and the advantage times the gradient of the token's log-probability one of
// minus its gradient, the beginning of the answer held as it was drawn:
//   grad KL = E_drawn[(log p_student - log p_teacher) grad log p_student], for E_drawn[grad log p_student] is 0
// Agarwal et al. 2024, "On-Policy Distillation of Language Models" (GKD, arXiv:2306.13649), section 3: the mean over an
// answer's tokens of a divergence, here the reverse one, over answers of the student alone (lambda = 1), no gradient
// through what it draws. By the token that was drawn, as a policy gradient: the term of a single step of Gu et al.
// 2024, "MiniLLM" (arXiv:2306.08543), section 2.2, and Lu and Thinking Machines Lab 2025, "On-Policy Distillation",
// whose advantage this is, with a discount of 0.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

// Natural logarithms, one of each token, of the same length.
inline std::vector<double> teacher_advantages(std::span<const double> student, std::span<const double> teacher) {
  LH_ASSERT(student.size() == teacher.size(), std::to_string(teacher.size()));
  std::vector<double> advantages(student.size());
  for (std::size_t t = 0; t < student.size(); ++t) advantages[t] = teacher[t] - student[t];
  return advantages;
}

}  // namespace longhaul
