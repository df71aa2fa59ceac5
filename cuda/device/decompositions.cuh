#pragma once

#include <cstdint>

/// Decompositions of single matrices by cuSOLVER, and triangular systems by cuBLAS (cusolver.cu). Matrices are stored
/// column by column, without gaps. `info`: a number in device memory, 0 after a success. Workspaces are allocated
/// per call (Buffer). The functions throw Failure if a library refuses the call and, except for library_triangular(),
/// during graph capture, because cuSOLVER may wait for the device.
namespace binade::cuda {

/// Returns true if the functions below can be used. Otherwise notes why not, for library_notes().
bool library_decomposes();

/// Replaces the upper triangle of a (n, n) by u with a = u^T u. Float or, if `wide`, double. info: 1 + the position of
/// the first pivot that is not positive.
void library_cholesky(bool wide, std::int64_t n, void* a, int* info);
/// Replaces a (rows, columns) by its factors l and u. pivots: row numbers from 1. info: 1 + the position of a pivot
/// that is 0; the factors are then not usable.
void library_lu(bool wide, std::int64_t rows, std::int64_t columns, void* a, std::int64_t* pivots, int* info);
/// Replaces a (rows, columns) by r and, below the diagonal, the reflections' vectors; stores their factors in tau.
void library_qr(std::int64_t rows, std::int64_t columns, double* a, double* tau, int* info);
/// The first `reflections` columns of q (rows, columns) and tau are results of library_qr(). Replaces q by Q.
void library_q(std::int64_t rows, std::int64_t columns, std::int64_t reflections, double* q, const double* tau,
               int* info);
/// Replaces a symmetric a (n, n) by its eigenvectors; values ascend.
void library_eigh(std::int64_t n, double* a, double* values, int* info);
/// a (rows, columns) = u diag(s) vt for rows >= columns; s descends. u is (rows, columns), or (rows, rows) if `full`;
/// vt is (columns, columns). Overwrites a.
void library_svd(std::int64_t rows, std::int64_t columns, bool full, double* a, double* u, double* s, double* vt,
                 int* info);

/// Replaces x (columns, n) by x op(a)^-1, where op(a) is the upper or lower triangle of a (n, n), or its transpose.
/// Float or, if `wide`, double.
struct LibraryTriangular {
  bool wide = false, upper = false, transpose = false, unit = false;
  std::int64_t n = 0, columns = 0;
  const void* a = nullptr;
  void* x = nullptr;
};
void library_triangular(const LibraryTriangular& t);

}  // namespace binade::cuda
