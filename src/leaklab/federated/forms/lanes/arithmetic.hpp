// The two loops that do the arithmetic of `lanes`: `product` (outputs, slopes at inputs, gradients of affine layers)
// and `correlation` (gradients of kernels). Plain C++ with the vectors that GCC and Clang have.
//
// Values between layers lie as [chunk][channel][row][column][lane]: the samples of a batch stand side by side in
// vectors, so that a convolution is products of single weights with whole vectors, whatever the size of its kernel,
// and no patch is copied.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace {

constexpr int BYTES = 64;
constexpr int ROWS = 6, POINTS = 4, KERNELS = 4, TAPS = 6;  // of a block: what the registers of AVX-512 hold
constexpr int FEATURES = 256, OUTPUTS = 64;                 // of a pass through an affine layer: for a first cache

template <typename Real> struct Lanes {
    static constexpr int N = BYTES / sizeof(Real);
    typedef Real Vector __attribute__((vector_size(BYTES)));
    typedef Real Loose __attribute__((vector_size(BYTES), aligned(sizeof(Real)), may_alias));
};

// Sums over k of single factors times vectors: factor (r, k) is at rows[r * row_step + k * step], vector (k, p) at
// vectors[offsets[k] + p * point_step]; sum (r, p) goes to sums[r * sum_row + p * sum_step].
template <typename Real> struct Product {
    const Real* rows;
    int64_t row_step, step;
    const Real* vectors;
    int64_t point_step;
    const int64_t* offsets;
    int count;
    const Real* start;  // first value of each row; nullptr: 0
    Real* sums;
    int64_t sum_row, sum_step;
    bool add = false;                   // to what is there, one row after the other: they may overlap
    const int64_t* sum_rows = nullptr;  // places of the rows' sums, where they are not r * sum_row
};

template <typename Real, int R, int P> void product_block(const Product<Real>& of) {
    typedef typename Lanes<Real>::Loose Loose;
    typedef typename Lanes<Real>::Vector Vector;
    Vector sums[R][P];
    const Real* row[R];
    for (int r = 0; r < R; r++) {
        row[r] = of.rows + r * of.row_step;
        for (int p = 0; p < P; p++) sums[r][p] = Vector{} + (of.start ? of.start[r] : Real(0));
    }
    for (int k = 0; k < of.count; k++) {
        const Real* at = of.vectors + of.offsets[k];
        Vector values[P];
        for (int p = 0; p < P; p++) values[p] = *reinterpret_cast<const Loose*>(at + p * of.point_step);
        for (int r = 0; r < R; r++) {
            const Real factor = row[r][k * of.step];
            for (int p = 0; p < P; p++) sums[r][p] += factor * values[p];
        }
    }
    for (int r = 0; r < R; r++) {
        Real* to = of.sums + (of.sum_rows ? of.sum_rows[r] : r * of.sum_row);
        for (int p = 0; p < P; p++, to += of.sum_step)
            *reinterpret_cast<Loose*>(to) = of.add ? *reinterpret_cast<Loose*>(to) + sums[r][p] : Loose(sums[r][p]);
    }
}

template <typename Real, int R> void product_row(const Product<Real>& of, int points) {
    switch (points) {
        case 1: return product_block<Real, R, 1>(of);
        case 2: return product_block<Real, R, 2>(of);
        case 3: return product_block<Real, R, 3>(of);
        default: return product_block<Real, R, 4>(of);
    }
}

template <typename Real> void product_of(const Product<Real>& of, int rows, int points) {
    switch (rows) {
        case 1: return product_row<Real, 1>(of, points);
        case 2: return product_row<Real, 2>(of, points);
        case 3: return product_row<Real, 3>(of, points);
        case 4: return product_row<Real, 4>(of, points);
        case 5: return product_row<Real, 5>(of, points);
        default: return product_row<Real, 6>(of, points);
    }
}

// Calls `work(first, size)` for even parts of at most `most`.
template <typename Work> void in_parts(int total, int most, Work work) {
    const int parts = (total + most - 1) / most;
    for (int part = 0, first = 0; part < parts; part++) {
        const int size = (total - first + parts - part - 1) / (parts - part);
        work(first, size);
        first += size;
    }
}

template <typename Real> void product(Product<Real> of, int rows, int points) {
    const Product<Real> whole = of;
    in_parts(points, POINTS, [&](int point, int wide) {
        of.vectors = whole.vectors + point * whole.point_step;
        in_parts(rows, ROWS, [&](int row, int high) {
            of.rows = whole.rows + row * whole.row_step;
            of.start = whole.start ? whole.start + row : nullptr;
            of.sum_rows = whole.sum_rows ? whole.sum_rows + row : nullptr;
            of.sums = whole.sums + (whole.sum_rows ? 0 : row * whole.sum_row) + point * whole.sum_step;
            product_of(of, high, wide);
        });
    });
}

// Values of all samples between two layers, with a border of zeros on all sides.
template <typename Real> struct Grid {
    int channels = 0, high = 0, wide = 0, border = 0;
    Real* data = nullptr;

    int64_t row() const { return int64_t(wide + 2 * border) * Lanes<Real>::N; }
    int64_t plane() const { return (high + 2 * border) * row(); }
    int64_t chunk() const { return channels * plane(); }
    Real* at(int chunk_, int channel, int y, int x) const {  // counted from the border's corner
        return data + chunk_ * chunk() + channel * plane() + y * row() + int64_t(x) * Lanes<Real>::N;
    }
    Real* inside(int chunk_, int channel, int y) const { return at(chunk_, channel, y + border, border); }
};

// The sum over the lanes, by halves.
template <typename Vector> auto total(Vector of) {
    constexpr int N = sizeof(Vector) / sizeof(of[0]);
    std::remove_reference_t<decltype(of[0])> lanes[N];
    std::memcpy(lanes, &of, sizeof lanes);
    for (int half = N / 2; half; half /= 2)
        for (int lane = 0; lane < half; lane++) lanes[lane] += lanes[lane + half];
    return lanes[0];
}

template <typename Real, int R, int T>
void correlation_block(const Grid<Real>& slopes, const Grid<Real>& values, int chunks, int kernel,
                       const int64_t* offsets, Real* gradients, int64_t row) {
    typedef typename Lanes<Real>::Vector Vector;
    Vector sums[R][T] = {};
    for (int chunk = 0; chunk < chunks; chunk++)
        for (int y = 0; y < slopes.high; y++) {
            const Real* slope = slopes.inside(chunk, kernel, y);
            const Real* value = values.at(chunk, 0, y, 0);
            for (int64_t x = 0; x < slopes.wide; x++, slope += Lanes<Real>::N, value += Lanes<Real>::N) {
                Vector own[R];
                for (int r = 0; r < R; r++) own[r] = *reinterpret_cast<const Vector*>(slope + r * slopes.plane());
                for (int t = 0; t < T; t++) {
                    const Vector moved = *reinterpret_cast<const Vector*>(value + offsets[t]);
                    for (int r = 0; r < R; r++) sums[r][t] += own[r] * moved;
                }
            }
        }
    for (int r = 0; r < R; r++)
        for (int t = 0; t < T; t++) {
            gradients[r * row + t] = total(sums[r][t]);
        }
}

template <typename Real, int R>
void correlation_row(int taps, const Grid<Real>& slopes, const Grid<Real>& values, int chunks, int kernel,
                     const int64_t* offsets, Real* gradients, int64_t row) {
    switch (taps) {
        case 1: return correlation_block<Real, R, 1>(slopes, values, chunks, kernel, offsets, gradients, row);
        case 2: return correlation_block<Real, R, 2>(slopes, values, chunks, kernel, offsets, gradients, row);
        case 3: return correlation_block<Real, R, 3>(slopes, values, chunks, kernel, offsets, gradients, row);
        case 4: return correlation_block<Real, R, 4>(slopes, values, chunks, kernel, offsets, gradients, row);
        case 5: return correlation_block<Real, R, 5>(slopes, values, chunks, kernel, offsets, gradients, row);
        default: return correlation_block<Real, R, 6>(slopes, values, chunks, kernel, offsets, gradients, row);
    }
}

// Gradients [kernels][taps]: sums over samples and places of the slopes times the values at each tap's offset.
template <typename Real>
void correlation(const Grid<Real>& slopes, const Grid<Real>& values, int chunks, const int64_t* offsets, int taps,
                 Real* gradients) {
    in_parts(slopes.channels, KERNELS, [&](int kernel, int high) {
        in_parts(taps, TAPS, [&](int tap, int wide) {
            const int64_t* own = offsets + tap;
            Real* to = gradients + int64_t(kernel) * taps + tap;
            switch (high) {
                case 1: return correlation_row<Real, 1>(wide, slopes, values, chunks, kernel, own, to, taps);
                case 2: return correlation_row<Real, 2>(wide, slopes, values, chunks, kernel, own, to, taps);
                case 3: return correlation_row<Real, 3>(wide, slopes, values, chunks, kernel, own, to, taps);
                default: return correlation_row<Real, 4>(wide, slopes, values, chunks, kernel, own, to, taps);
            }
        });
    });
}

}  // namespace
