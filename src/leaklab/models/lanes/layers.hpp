// What each kind of layer does with the values of a batch, forwards, and with the slopes of the loss, backwards.

#pragma once

#include "arithmetic.hpp"

namespace {

// Hands out parts of a memory, or only counts what they need.
template <typename Real> struct Parts {
    Real* first;  // nullptr: counts
    int64_t needed = 0;

    Real* take(int64_t size) {
        Real* part = first ? first + needed : nullptr;
        needed += (size + Lanes<Real>::N - 1) / Lanes<Real>::N * Lanes<Real>::N;
        return part;
    }
};

// Memory of a network for what lies otherwise than its grids, as large as its largest layer asks for.
template <typename Real> struct Scratch {
    Real* kernels = nullptr;  // [taps][outputs], the kernels of a convolution turned
    Real* samples = nullptr;  // [sample][feature], values or slopes at an affine layer's inputs
    Real* slopes = nullptr;   // [output][sample], slopes at its outputs
    Real* columns = nullptr;  // [output][lane], the last features where they fill no vector
};

template <typename Real> struct Convolution {
    std::vector<int64_t> taps;      // offsets of channel, row and column of a kernel, in the grid of the inputs
    std::vector<int64_t> channels;  // offsets of the channels of the outputs
    const int stride;

    Convolution(const Grid<Real>& in, const Grid<Real>& out, int high, int wide, int stride_) : stride(stride_) {
        for (int channel = 0; channel < in.channels; channel++)
            for (int i = 0; i < high; i++)
                for (int j = 0; j < wide; j++)
                    taps.push_back(channel * in.plane() + i * in.row() + int64_t(j) * Lanes<Real>::N);
        for (int channel = 0; channel < out.channels; channel++) channels.push_back(channel * out.plane());
    }

    void forward(const Grid<Real>& in, const Grid<Real>& out, int chunks, const Real* weight, const Real* bias,
                 bool add = false) const {
        const int64_t size = taps.size(), N = Lanes<Real>::N;
        in_parts(out.channels, ROWS, [&](int row, int high) {
            for (int chunk = 0; chunk < chunks; chunk++)
                for (int y = 0; y < out.high; y++)
                    product<Real>({weight + row * size, size, 1, in.at(chunk, 0, y * stride, 0), stride * N,
                                   taps.data(), int(size), bias ? bias + row : nullptr, out.inside(chunk, row, y),
                                   out.plane(), N, add},
                                  high, out.wide);
        });
    }

    // Adds what each slope at an output means for the inputs under its kernel: no product with a border's zeros. The
    // sums of one block lie in different channels, so that none waits for what another one has just stored.
    void slopes_at_inputs(const Grid<Real>& out, const Grid<Real>& in, int chunks, const Real* weight, Real* turned) {
        const int64_t outputs = channels.size(), places = taps.size() / in.channels, N = Lanes<Real>::N;
        std::memset(in.data, 0, chunks * in.chunk() * sizeof(Real));
        for (int64_t place = 0; place < places; place++)
            for (int64_t channel = 0; channel < in.channels; channel++)
                for (int64_t output = 0; output < outputs; output++)
                    turned[(place * in.channels + channel) * outputs + output] =
                        weight[output * taps.size() + channel * places + place];
        for (int64_t place = 0; place < places; place++)
            for (int chunk = 0; chunk < chunks; chunk++)
                for (int y = 0; y < out.high; y++)
                    product<Real>({turned + place * in.channels * outputs, outputs, 1, out.at(chunk, 0, y, 0), N,
                                   channels.data(), int(outputs), nullptr, in.at(chunk, 0, y * stride, 0) + taps[place],
                                   in.plane(), stride * N, true},
                                  in.channels, out.wide);
    }
};

template <typename Real> struct Affine {
    typedef typename Lanes<Real>::Vector Vector;
    static constexpr int N = Lanes<Real>::N;

    const int inputs, outputs, batch, chunks, full, rest;  // full vectors of inputs, and what is left
    const int64_t row, lanes;                              // of one sample in the scratch, and of one output
    std::vector<int64_t> features, weights, samples, columns;

    Affine(int inputs_, int outputs_, int batch_)
        : inputs(inputs_), outputs(outputs_), batch(batch_), chunks((batch_ + N - 1) / N), full(inputs_ / N),
          rest(inputs_ % N), row((inputs_ + N - 1) / N * N), lanes(int64_t(chunks) * N) {
        for (int64_t k = 0; k < inputs; k++) features.push_back(k * N);
        for (int64_t output = 0; output < outputs; output++) weights.push_back(output * inputs);
        for (int64_t sample = 0; sample < batch; sample++) samples.push_back(sample * row);
        for (int64_t output = 0; output < OUTPUTS; output++) columns.push_back(output * N);
    }

    void forward(const Grid<Real>& in, const Grid<Real>& out, const Real* weight, const Real* bias) const {
        in_parts(inputs, FEATURES, [&](int first, int size) {
            product<Real>({weight + first, inputs, 1, in.data, in.chunk(), features.data() + first, size,
                           first ? nullptr : bias, out.data, N, out.chunk(), first > 0},
                          outputs, chunks);
        });
    }

    void turn_slopes(const Grid<Real>& out, const Scratch<Real>& scratch) const {
        for (int chunk = 0; chunk < chunks; chunk++)
            for (int output = 0; output < outputs; output++)
                std::memcpy(scratch.slopes + output * lanes + chunk * N, out.at(chunk, output, 0, 0), sizeof(Vector));
    }

    void gradient(const Grid<Real>& in, Real* gradient, const Scratch<Real>& scratch) const {
        each(in, scratch.samples, [](Real& value, Real& sample) { sample = value; });
        Product<Real> of{scratch.slopes, lanes, 1, scratch.samples, N, samples.data(), batch, nullptr, gradient,
                         inputs, N};
        product(of, outputs, full);
        if (!rest) return;
        of.vectors += full * N, of.sums = scratch.columns, of.sum_row = N;
        product(of, outputs, 1);
        for (int output = 0; output < outputs; output++)
            std::memcpy(gradient + int64_t(output) * inputs + full * N, scratch.columns + output * N,
                        rest * sizeof(Real));
    }

    void slopes_at_inputs(const Grid<Real>& in, const Real* weight, const Scratch<Real>& scratch) const {
        in_parts(outputs, OUTPUTS, [&](int first, int size) {
            Product<Real> of{scratch.slopes + first * lanes, 1, lanes, weight + int64_t(first) * inputs, N,
                             weights.data(), size, nullptr, scratch.samples, row, N, first > 0};
            product(of, batch, full);
            if (!rest) return;
            for (int output = 0; output < size; output++)  // a vector of the last row would read beyond the weights
                std::memcpy(scratch.columns + output * N, of.vectors + int64_t(output) * inputs + full * N,
                            rest * sizeof(Real));
            of.vectors = scratch.columns, of.offsets = columns.data(), of.sums += full * N;
            product(of, batch, 1);
        });
        each(in, scratch.samples, [](Real& value, Real& sample) { value = sample; });
    }

   private:
    // Calls `move` for each value of a grid and its place among the samples, in squares that stay in a first cache.
    template <typename Move> void each(const Grid<Real>& grid, Real* to, Move move) const {
        for (int chunk = 0; chunk < chunks; chunk++)
            for (int first = 0; first < inputs; first += N)
                for (int lane = 0; lane < std::min(N, batch - chunk * N); lane++)
                    for (int k = first; k < std::min(first + N, inputs); k++)
                        move(grid.data[chunk * grid.chunk() + int64_t(k) * N + lane], to[(chunk * N + lane) * row + k]);
    }
};

template <typename Real, typename Work> void each_row(const Grid<Real>& grid, int chunks, Work work) {
    for (int chunk = 0; chunk < chunks; chunk++)
        for (int channel = 0; channel < grid.channels; channel++)
            for (int y = 0; y < grid.high; y++) work(chunk, channel, y);
}

template <typename Real> typename Lanes<Real>::Vector& vector(Real* values, int64_t place) {
    return reinterpret_cast<typename Lanes<Real>::Vector*>(values)[place];
}

// Places of vectors that lie side by side.
template <typename Real> std::vector<int64_t> steps(int64_t count) {
    std::vector<int64_t> found(count);
    for (int64_t k = 0; k < count; k++) found[k] = k * Lanes<Real>::N;
    return found;
}

// The greatest value of each window; one that is not a number wins.
template <typename Real> void pool(const Grid<Real>& in, const Grid<Real>& out, int chunks, int high, int wide) {
    each_row(out, chunks, [&](int chunk, int channel, int y) {
        Real *from = in.inside(chunk, channel, y * high), *to = out.inside(chunk, channel, y);
        for (int x = 0; x < out.wide; x++) {
            auto most = vector(from, x * wide);
            for (int i = 0; i < high; i++)
                for (int j = 0; j < wide; j++) {
                    const auto one = vector(from + i * in.row(), x * wide + j);
                    most = (one > most) | (one != one) ? one : most;
                }
            vector(to, x) = most;
        }
    });
}

// The slope goes to the first of the greatest values of a window.
template <typename Real>
void pool_back(const Grid<Real>& in, const Grid<Real>& out, const Grid<Real>& slopes, const Grid<Real>& to, int chunks,
               int high, int wide) {
    each_row(out, chunks, [&](int chunk, int channel, int y) {
        Real *most = out.inside(chunk, channel, y), *given = slopes.inside(chunk, channel, y);
        Real *from = in.inside(chunk, channel, y * high), *into = to.inside(chunk, channel, y * high);
        for (int x = 0; x < out.wide; x++) {
            const auto greatest = vector(most, x);
            auto left = vector(given, x);
            const auto none = left - left;
            for (int i = 0; i < high; i++)
                for (int j = 0; j < wide; j++) {
                    const auto here = vector(from + i * in.row(), x * wide + j) == greatest;
                    vector(into + i * to.row(), x * wide + j) = here ? left : none;
                    left = here ? none : left;
                }
        }
    });
}

template <typename Real> void rectify(const Grid<Real>& in, const Grid<Real>& out, int chunks, Real below) {
    each_row(out, chunks, [&](int chunk, int channel, int y) {
        Real *from = in.inside(chunk, channel, y), *to = out.inside(chunk, channel, y);
        for (int x = 0; x < out.wide; x++) {
            const auto one = vector(from, x);
            vector(to, x) = one <= 0 ? one * below : one;
        }
    });
}

template <typename Real>
void rectify_back(const Grid<Real>& in, const Grid<Real>& slopes, const Grid<Real>& to, int chunks, Real below) {
    each_row(in, chunks, [&](int chunk, int channel, int y) {
        Real *from = slopes.inside(chunk, channel, y), *own = in.inside(chunk, channel, y);
        Real* into = to.inside(chunk, channel, y);
        for (int x = 0; x < in.wide; x++) {
            const auto one = vector(from, x);
            vector(into, x) = vector(own, x) > 0 ? one : one * below;
        }
    });
}

// e^x to a rounding or two: 2^n times a Taylor polynomial on [-ln 2 / 2, ln 2 / 2], whose rest is below a rounding.
template <typename Real> typename Lanes<Real>::Vector exponential(typename Lanes<Real>::Vector x) {
    constexpr bool SINGLE = sizeof(Real) == 4;
    typedef std::conditional_t<SINGLE, int32_t, int64_t> Integer;
    typedef Integer Integers __attribute__((vector_size(BYTES)));
    const Real most = SINGLE ? 88 : 709, least = SINGLE ? -87 : -708;
    x = x > most ? most + x * 0 : x;
    x = x < least ? least + x * 0 : x;
    const Real magic = SINGLE ? Real(12582912) : Real(6755399441055744);  // 1.5 * 2^23, 1.5 * 2^52: rounds to integers
    const auto n = (x * Real(1.4426950408889634) + magic) - magic;
    const auto r = (x - n * Real(SINGLE ? 0.693359375 : 0.693145751953125)) -
                   n * Real(SINGLE ? -2.12194440e-4 : 1.42860682030941723212e-6);
    auto sum = x * 0 + Real(1);
    for (int k = SINGLE ? 7 : 13; k >= 1; k--) sum = sum * r / Real(k) + Real(1);
    const auto power = (__builtin_convertvector(n, Integers) + (SINGLE ? 127 : 1023)) << (SINGLE ? 23 : 52);
    typename Lanes<Real>::Vector factor;
    std::memcpy(&factor, &power, sizeof factor);
    return sum * factor;
}

template <typename Real> void squash(const Grid<Real>& in, const Grid<Real>& out, int chunks) {
    each_row(in, chunks, [&](int chunk, int channel, int y) {
        Real *from = in.inside(chunk, channel, y), *to = out.inside(chunk, channel, y);
        for (int x = 0; x < in.wide; x++) vector(to, x) = 1 / (1 + exponential<Real>(-vector(from, x)));
    });
}

// `out` are the sigmoid's outputs: its derivative there is out (1 - out).
template <typename Real>
void squash_back(const Grid<Real>& out, const Grid<Real>& slopes, const Grid<Real>& to, int chunks) {
    each_row(out, chunks, [&](int chunk, int channel, int y) {
        Real *own = out.inside(chunk, channel, y), *from = slopes.inside(chunk, channel, y);
        Real* into = to.inside(chunk, channel, y);
        for (int x = 0; x < out.wide; x++) vector(into, x) = vector(from, x) * vector(own, x) * (1 - vector(own, x));
    });
}

// Values, or slopes, times the mask [batch, C, H, W].
template <typename Real> void drop(const Grid<Real>& from, const Grid<Real>& to, int batch, const Real* mask) {
    const int64_t N = Lanes<Real>::N, size = int64_t(from.channels) * from.high * from.wide;
    for (int64_t sample = 0; sample < batch; sample++)
        each_row(from, 1, [&](int, int channel, int y) {
            const Real* own = mask + sample * size + (int64_t(channel) * from.high + y) * from.wide;
            const Real* one = from.inside(int(sample / N), channel, y) + sample % N;
            Real* into = to.inside(int(sample / N), channel, y) + sample % N;
            for (int64_t x = 0; x < from.wide; x++) into[x * N] = one[x * N] * own[x];
        });
}

// Sums over samples and places, by channel: a bias's gradient.
template <typename Real> void sums(const Grid<Real>& slopes, int chunks, Real* to) {
    for (int channel = 0; channel < slopes.channels; channel++) {
        typename Lanes<Real>::Vector sum = {};
        for (int chunk = 0; chunk < chunks; chunk++)
            for (int y = 0; y < slopes.high; y++)
                for (int x = 0; x < slopes.wide; x++) sum += vector(slopes.inside(chunk, channel, y), x);
        to[channel] = total(sum);
    }
}

}  // namespace
