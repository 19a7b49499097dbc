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

// Bytes of a vector, and the size of blocks whose sums, values and factors the processor's registers hold.
#if defined(__AVX512F__)  // 32 of 64 bytes
constexpr int BYTES = 64, ROWS = 6, POINTS = 4, KERNELS = 4, TAPS = 6, OWN_ROWS = 4;
#elif defined(__AVX__)  // 16 of 32 bytes
constexpr int BYTES = 32, ROWS = 6, POINTS = 2, KERNELS = 3, TAPS = 4, OWN_ROWS = 4;
#elif defined(__aarch64__)  // 32 of 16 bytes
constexpr int BYTES = 16, ROWS = 6, POINTS = 4, KERNELS = 4, TAPS = 6, OWN_ROWS = 4;
#else  // 16 of 16 bytes
constexpr int BYTES = 16, ROWS = 6, POINTS = 2, KERNELS = 3, TAPS = 4, OWN_ROWS = 4;
#endif
constexpr int FEATURES = 256, OUTPUTS = 64;  // of a pass through an affine layer: for a first cache

template <typename Real> struct Lanes {
    static constexpr int N = BYTES / sizeof(Real);
    typedef Real Vector __attribute__((vector_size(BYTES)));
    typedef Real Loose __attribute__((vector_size(BYTES), aligned(sizeof(Real)), may_alias));
};

// Sums over k of factors times vectors: factor (r, k) is at rows[r * row_step + k * step], vector (k, p) at
// vectors[offsets[k] + p * point_step]; sum (r, p) goes to sums[r * sum_row + p * sum_step]. A factor is a single value
// or, in OWN products, a vector: each sample has its own.
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
    bool add = false;  // to what is there
};

template <typename Real, bool OWN, int R, int P> void product_block(const Product<Real>& of) {
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
            if constexpr (OWN) {
                const Vector factor = *reinterpret_cast<const Loose*>(row[r] + k * of.step);
                for (int p = 0; p < P; p++) sums[r][p] += factor * values[p];
            } else {
                const Real factor = row[r][k * of.step];
                for (int p = 0; p < P; p++) sums[r][p] += factor * values[p];
            }
        }
    }
    for (int r = 0; r < R; r++) {
        Real* to = of.sums + r * of.sum_row;
        for (int p = 0; p < P; p++, to += of.sum_step)
            *reinterpret_cast<Loose*>(to) = of.add ? *reinterpret_cast<Loose*>(to) + sums[r][p] : Loose(sums[r][p]);
    }
}

template <typename Real, bool OWN, int R> void product_row(const Product<Real>& of, int points) {
    switch (points) {
        case 1: return product_block<Real, OWN, R, 1>(of);
        case 2: return product_block<Real, OWN, R, 2>(of);
        case 3: return product_block<Real, OWN, R, 3>(of);
        default: return product_block<Real, OWN, R, 4>(of);
    }
}

template <typename Real, bool OWN> void product_of(const Product<Real>& of, int rows, int points) {
    switch (rows) {
        case 1: return product_row<Real, OWN, 1>(of, points);
        case 2: return product_row<Real, OWN, 2>(of, points);
        case 3: return product_row<Real, OWN, 3>(of, points);
        case 4: return product_row<Real, OWN, 4>(of, points);
        case 5: return product_row<Real, OWN, 5>(of, points);
        default: return product_row<Real, OWN, 6>(of, points);
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

template <typename Real, bool OWN = false> void product(Product<Real> of, int rows, int points) {
    const Product<Real> whole = of;
    in_parts(points, POINTS, [&](int point, int wide) {
        of.vectors = whole.vectors + point * whole.point_step;
        in_parts(rows, ROWS, [&](int row, int high) {
            of.rows = whole.rows + row * whole.row_step;
            of.start = whole.start ? whole.start + row : nullptr;
            of.sums = whole.sums + row * whole.sum_row + point * whole.sum_step;
            product_of<Real, OWN>(of, high, wide);
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
    Grid part(int chunk_) const {
        Grid found = *this;
        found.data += chunk_ * chunk();
        return found;
    }
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

template <typename Real, bool OWN> struct Correlation {
    const Grid<Real>&slopes, &values;
    int chunks, stride;
    int64_t row;  // taps of a kernel

    template <int R, int T> void block(int kernel, const int64_t* offsets, Real* gradients) const {
        typedef typename Lanes<Real>::Vector Vector;
        constexpr int N = Lanes<Real>::N;
        Vector sums[R][T] = {};
        for (int chunk = 0; chunk < chunks; chunk++)
            for (int y = 0; y < slopes.high; y++) {
                const Real* slope = slopes.inside(chunk, kernel, y);
                const Real* value = values.at(chunk, 0, y * stride, 0);
                for (int64_t x = 0; x < slopes.wide; x++, slope += N, value += stride * N) {
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
                if constexpr (OWN)
                    *reinterpret_cast<Vector*>(gradients + (r * row + t) * N) = sums[r][t];
                else
                    gradients[r * row + t] = total(sums[r][t]);
            }
    }

    template <int R> void taps(int wide, int kernel, const int64_t* offsets, Real* gradients) const {
        switch (wide) {
            case 1: return block<R, 1>(kernel, offsets, gradients);
            case 2: return block<R, 2>(kernel, offsets, gradients);
            case 3: return block<R, 3>(kernel, offsets, gradients);
            case 4: return block<R, 4>(kernel, offsets, gradients);
            case 5: return block<R, 5>(kernel, offsets, gradients);
            default: return block<R, 6>(kernel, offsets, gradients);
        }
    }

    void kernels(int high, int wide, int kernel, const int64_t* offsets, Real* gradients) const {
        switch (high) {
            case 1: return taps<1>(wide, kernel, offsets, gradients);
            case 2: return taps<2>(wide, kernel, offsets, gradients);
            case 3: return taps<3>(wide, kernel, offsets, gradients);
            default: return taps<4>(wide, kernel, offsets, gradients);
        }
    }
};

// Gradients [kernels][taps]: sums over samples and places of the slopes times the values at each tap's offset. In OWN
// ones each sample has its own: [kernels][taps][lane], of one chunk.
template <typename Real, bool OWN = false>
void correlation(const Grid<Real>& slopes, const Grid<Real>& values, int chunks, int stride,
                 const std::vector<int64_t>& offsets, Real* gradients) {
    const Correlation<Real, OWN> of{slopes, values, chunks, stride, int64_t(offsets.size())};
    in_parts(slopes.channels, KERNELS, [&](int kernel, int high) {
        in_parts(int(offsets.size()), TAPS, [&](int tap, int wide) {
            const int64_t place = (kernel * of.row + tap) * (OWN ? Lanes<Real>::N : 1);
            of.kernels(high, wide, kernel, offsets.data() + tap, gradients + place);
        });
    });
}

}  // namespace
