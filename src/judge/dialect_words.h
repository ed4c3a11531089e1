// What a verdict says, in the names that its candidate speaks. The judge, the builder's compiler and the virtual GPU speak CUDA's;
// a candidate in the MUSA dialect reads "musaErrorInvalidValue", "mublas" and "MUSA error".
//
//   if (verdict.dialect == "musa") put_in_musa(table, verdict);
//   feedback.title = worded(info.title, verdict.dialect);          // "MUSA compile error"
//
// Statuses are codes and stay, whatever words they are made of; so does what the candidate named itself (kernels, tensors).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "candidate/candidate.h"
#include "judge/verdict.h"
#include "port/rename_table.h"

namespace musacoder::judge {

// Causes, levels, notes, exceptions, faults, ledgers. What a build says is already in the candidate's names (build/dialect.h).
void put_in_musa(const port::RenameTable& table, Verdict& verdict);

// A sentence of our own about CUDA as one about the dialect: CUDA → MUSA, nvcc → mcc, cuda_sources → musa_sources, …
std::string worded(std::string_view sentence, std::string_view dialect);

// Assumptions about the width of a warp in the C++ of a MUSA candidate, as one remark with the lines of its code; "" when there
// are none. They hold on an S5000 (32 threads), not on S80 and S4000 (128).
std::string warp_assumptions(const port::RenameTable& table, const candidate::Candidate& candidate);

}  // namespace musacoder::judge
