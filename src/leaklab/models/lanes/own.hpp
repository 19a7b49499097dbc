// What each sample has of its own: weights, or gradients, that lie in its lane, [output][tap][lane], of one chunk.

#pragma once

#include "layers.hpp"

namespace {

template <typename Real> struct Own {
    typedef typename Lanes<Real>::Vector Vector;
    static constexpr int N = Lanes<Real>::N;

    Real* data = nullptr;

    // Adds what lies in the lanes to the trials of some samples, in squares that stay in a first cache.
    void give(int64_t first_sample, int lanes, int batch, int64_t size, Real* into) const {
        for (int64_t first = 0; first < size; first += N)
            for (int lane = 0; lane < lanes; lane++) {
                Real* to = into + (first_sample + lane) / batch * size;
                for (int64_t k = first; k < std::min(first + N, size); k++) to[k] += data[k * N + lane];
            }
    }

    // Lays what the trials of some samples have into the lanes.
    void take(int64_t first_sample, int lanes, int batch, int64_t size, const Real* from) const {
        for (int64_t first = 0; first < size; first += N)
            for (int lane = 0; lane < lanes; lane++) {
                const Real* one = from + (first_sample + lane) / batch * size;
                for (int64_t k = first; k < std::min(first + N, size); k++) data[k * N + lane] = one[k];
            }
    }

    // Gradients of an affine layer.
    void outer(const Grid<Real>& slopes, const Grid<Real>& in, int outputs, int64_t inputs) const {
        for (int64_t output = 0; output < outputs; output++)
            for (int64_t k = 0; k < inputs; k++)
                vector(data, output * inputs + k) = vector(slopes.data, output) * vector(in.data, k);
    }

    // Gradients of biases.
    void sums(const Grid<Real>& slopes) const {
        for (int channel = 0; channel < slopes.channels; channel++) {
            Vector sum = {};
            for (int y = 0; y < slopes.high; y++)
                for (int x = 0; x < slopes.wide; x++) sum += vector(slopes.inside(0, channel, y), x);
            vector(data, channel) = sum;
        }
    }

    // Sets every place of a channel to the channel's own bias, or to 0.
    void spread(const Grid<Real>& to, bool biased) const {
        each_row(to, 1, [&](int, int channel, int y) {
            for (int x = 0; x < to.wide; x++)
                vector(to.inside(0, channel, y), x) = biased ? vector(data, channel) : Vector{};
        });
    }

    // Adds a convolution with the samples' own kernels.
    void convolve(const Convolution<Real>& of, const Grid<Real>& in, const Grid<Real>& out) const {
        const int64_t size = of.taps.size();
        in_parts(out.channels, OWN_ROWS, [&](int row, int high) {
            for (int y = 0; y < out.high; y++)
                product<Real, true>({data + row * size * N, size * N, N, in.at(0, 0, y * of.stride, 0), of.stride * N,
                                     of.taps.data(), int(size), nullptr, out.inside(0, row, y), out.plane(), N, true},
                                    high, out.wide);
        });
    }

    // Adds what slopes at the outputs of such a convolution mean for its inputs.
    void convolve_back(const Convolution<Real>& of, const Grid<Real>& out, const Grid<Real>& to) const {
        const int64_t size = of.taps.size(), places = size / to.channels;
        for (int64_t place = 0; place < places; place++)
            in_parts(to.channels, OWN_ROWS, [&](int channel, int high) {
                for (int y = 0; y < out.high; y++)
                    product<Real, true>({data + (channel * places + place) * N, places * N, size * N,
                                         out.at(0, 0, y, 0), N, of.channels.data(), int(of.channels.size()), nullptr,
                                         to.at(0, channel, y * of.stride, 0) + of.taps[place], to.plane(),
                                         of.stride * N, true},
                                        high, out.wide);
            });
    }

    // Adds the products of an affine layer's own weights with its inputs, or of their transposes with its slopes.
    void multiply(const Grid<Real>& from, const Grid<Real>& to, int outputs, int inputs, bool back) const {
        const std::vector<int64_t> offsets = steps<Real>(back ? outputs : inputs);
        const int64_t row = back ? N : int64_t(inputs) * N, step = back ? int64_t(inputs) * N : N;
        in_parts(back ? inputs : outputs, OWN_ROWS, [&](int first, int high) {
            product<Real, true>({data + first * row, row, step, from.data, N, offsets.data(), int(offsets.size()),
                                 nullptr, to.data + first * N, N, N, true},
                                high, 1);
        });
    }
};

// The moves of a window's first greatest value.
template <typename Real>
void pool_move(const Grid<Real>& in, const Grid<Real>& out, const Grid<Real>& moved, const Grid<Real>& to, int high,
               int wide) {
    each_row(out, 1, [&](int, int channel, int y) {
        for (int x = 0; x < out.wide; x++) {
            const auto greatest = vector(out.inside(0, channel, y), x);
            auto found = greatest - greatest;
            for (int i = high - 1; i >= 0; i--)
                for (int j = wide - 1; j >= 0; j--) {
                    const auto here = vector(in.inside(0, channel, y * high + i), x * wide + j) == greatest;
                    found = here ? vector(moved.inside(0, channel, y * high + i), x * wide + j) : found;
                }
            vector(to.inside(0, channel, y), x) = found;
        }
    });
}

// Slopes e a (1 - a) before a sigmoid with outputs a move with e, and with the sigmoid's input.
template <typename Real>
void squash_move(const Grid<Real>& outputs, const Grid<Real>& slopes, const Grid<Real>& moved, const Grid<Real>& out,
                 const Grid<Real>& to) {
    each_row(outputs, 1, [&](int, int channel, int y) {
        for (int x = 0; x < outputs.wide; x++) {
            const auto a = vector(outputs.inside(0, channel, y), x);
            const auto move = vector(moved.inside(0, channel, y), x);
            const auto bent = vector(slopes.inside(0, channel, y), x) * (1 - 2 * a) * move;
            vector(to.inside(0, channel, y), x) = (vector(out.inside(0, channel, y), x) + bent) * a * (1 - a);
        }
    });
}

}  // namespace
