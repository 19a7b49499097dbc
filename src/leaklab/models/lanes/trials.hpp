// Gradients of many trials at once, and what any function of them means for the images and the labels.
//
// Each sample has a gradient of its own, in its lane. Let V be the derivative of a function of a trial's gradient by
// that gradient. Then the function's derivative by the trial's images is that of <V, gradient>, which is the derivative
// of the images' own slopes in the direction V of the weights (Pearlmutter, "Fast exact multiplication by the Hessian",
// 1994): a second forward and backward pass beside the first, of the *moves* that values and slopes make when the
// weights move along V.

#pragma once

#include "network.hpp"
#include "own.hpp"

namespace {

template <typename Real> class Trials {
    typedef typename Lanes<Real>::Vector Vector;
    static constexpr int N = Lanes<Real>::N;

    const std::vector<Layer> layers;
    const int count, trials, batch, samples, chunks;  // samples are trial after trial
    std::vector<Grid<Real>> values, slopes;           // of all chunks
    std::vector<Grid<Real>> moves, slope_moves;       // of one
    std::vector<std::unique_ptr<Convolution<Real>>> convolutions;
    Own<Real> own;                                    // of one layer
    Real* turned = nullptr;                           // its weights
    std::unique_ptr<Real, decltype(&std::free)> memory{nullptr, &std::free};

   public:
    Trials(const Layer* first, int count_, int trials_, int batch_)
        : layers(first, first + count_), count(count_), trials(trials_), batch(batch_), samples(trials_ * batch_),
          chunks((samples + N - 1) / N), values(count_ + 1), slopes(count_ + 1), moves(count_ + 1),
          slope_moves(count_ + 1), convolutions(count_) {
        for (int index = 0; index <= count; index++) {
            values[index] = grid_before<Real>(layers, index);
            slopes[index] = moves[index] = slope_moves[index] = values[index];
        }
        const size_t size = place(nullptr) * sizeof(Real);
        memory.reset(static_cast<Real*>(std::aligned_alloc(BYTES, size)));
        if (!memory) throw std::bad_alloc();
        std::memset(memory.get(), 0, size);
        place(memory.get());
        for (int index = 0; index < count; index++)
            if (layers[index].kind == CONVOLUTION)
                convolutions[index] = std::make_unique<Convolution<Real>>(
                    values[index], values[index + 1], layers[index].kernel_high, layers[index].kernel_wide,
                    layers[index].stride);
    }

    // Gradients by place in `weights`, [trials][size]; targets are class probabilities [samples][classes].
    void gradients(const Real* images, const Real* targets, const Real* const* weights, const int64_t* sizes,
                   Real* const* into, int parameters) {
        for (int place = 0; place < parameters; place++)
            std::memset(into[place], 0, trials * sizes[place] * sizeof(Real));
        for (int chunk = 0; chunk < chunks; chunk++) {
            read(images, chunk);
            for (int index = 0; index < count; index++) forward(index, chunk, weights);
            loss_slopes(targets, chunk);
            for (int index = count - 1; index >= 0; index--) backward(index, chunk, weights, sizes, into);
        }
    }

    // After `gradients` of the same: derivatives by images and targets, for `outer` as `into` there.
    void derivatives(const Real* targets, const Real* const* weights, const int64_t* sizes, const Real* const* outer,
                     Real* by_images, Real* by_targets) {
        for (int chunk = 0; chunk < chunks; chunk++) {
            for (int index = 0; index < count; index++) move_forward(index, chunk, weights, sizes, outer);
            move_loss_slopes(targets, chunk, by_targets);
            for (int index = count - 1; index >= 0; index--) move_backward(index, chunk, weights, sizes, outer);
            write(by_images, chunk);
        }
    }

   private:
    int lanes(int chunk) const { return std::min(N, samples - chunk * N); }
    static int64_t taps(const Layer& layer) {
        return int64_t(layer.channels) *
               (layer.kind == AFFINE ? layer.high * layer.wide : layer.kernel_high * layer.kernel_wide);
    }
    const Real* weight(int index, const Real* const* weights) const { return weights[layers[index].weight]; }
    const Real* bias(int index, const Real* const* weights) const {
        return layers[index].bias < 0 ? nullptr : weights[layers[index].bias];
    }

    int64_t place(Real* first) {
        int64_t most = 0;
        Parts<Real> parts{first};
        for (auto* grids : {&values, &slopes})
            for (auto& grid : *grids) grid.data = parts.take(chunks * grid.chunk());
        for (auto* grids : {&moves, &slope_moves})
            for (auto& grid : *grids) grid.data = parts.take(grid.chunk());
        for (const Layer& layer : layers)
            if (layer.weight >= 0) most = std::max<int64_t>(most, layer.outputs * taps(layer));
        own.data = parts.take(most * N);
        turned = parts.take(most);
        return parts.needed;
    }

    void read(const Real* images, int chunk) {
        const Grid<Real>& grid = values[0];
        const int64_t size = int64_t(grid.channels) * grid.high * grid.wide;
        for (int lane = 0; lane < lanes(chunk); lane++) {
            const Real* from = images + (int64_t(chunk) * N + lane) * size;
            each_row(grid, 1, [&](int, int channel, int y) {
                Real* to = grid.inside(chunk, channel, y) + lane;
                for (int64_t x = 0; x < grid.wide; x++) to[x * N] = *from++;
            });
        }
    }

    void write(Real* images, int chunk) const {
        const Grid<Real>& grid = slope_moves[0];
        const int64_t size = int64_t(grid.channels) * grid.high * grid.wide;
        for (int lane = 0; lane < lanes(chunk); lane++) {
            Real* to = images + (int64_t(chunk) * N + lane) * size;
            each_row(grid, 1, [&](int, int channel, int y) {
                const Real* from = grid.inside(0, channel, y) + lane;
                for (int64_t x = 0; x < grid.wide; x++) *to++ = from[x * N];
            });
        }
    }

    void forward(int index, int chunk, const Real* const* weights) {
        const Layer& layer = layers[index];
        const auto in = values[index].part(chunk), out = values[index + 1].part(chunk);
        switch (layer.kind) {
            case CONVOLUTION:
                convolutions[index]->forward(in, out, 1, weight(index, weights), bias(index, weights));
                break;
            case AFFINE: affine(layer, in, out, weight(index, weights), bias(index, weights), false); break;
            case POOL: pool(in, out, 1, layer.kernel_high, layer.kernel_wide); break;
            case RECTIFIER: rectify(in, out, 1, Real(layer.below)); break;
            case SIGMOID: squash(in, out, 1); break;
        }
    }

    void loss_slopes(const Real* targets, int chunk) {
        const Grid<Real>&outputs = values[count], &slope = slopes[count];
        const int classes = outputs.channels;
        for (int lane = 0; lane < lanes(chunk); lane++) {
            const Real* wanted = targets + (int64_t(chunk) * N + lane) * classes;
            const Real* from = outputs.at(chunk, 0, 0, 0) + lane;
            Real* to = slope.at(chunk, 0, 0, 0) + lane;
            Real most = from[0], total = 0, mass = 0;
            for (int row = 1; row < classes; row++) most = std::max(most, from[row * N]);
            for (int row = 0; row < classes; row++) total += to[row * N] = std::exp(from[row * N] - most);
            for (int row = 0; row < classes; row++) mass += wanted[row];
            for (int row = 0; row < classes; row++) to[row * N] = (to[row * N] / total * mass - wanted[row]) / batch;
        }
    }

    void backward(int index, int chunk, const Real* const* weights, const int64_t* sizes, Real* const* into) {
        const Layer& layer = layers[index];
        const auto in = values[index].part(chunk), after = values[index + 1].part(chunk);
        const auto out = slopes[index + 1].part(chunk), to = slopes[index].part(chunk);
        switch (layer.kind) {
            case CONVOLUTION:
                correlation<Real, true>(out, in, 1, layer.stride, convolutions[index]->taps, own.data);
                break;
            case AFFINE: own.outer(out, in, layer.outputs, taps(layer)); break;
            case POOL: pool_back(in, after, out, to, 1, layer.kernel_high, layer.kernel_wide); return;
            case RECTIFIER: rectify_back(in, out, to, 1, Real(layer.below)); return;
            case SIGMOID: squash_back(after, out, to, 1); return;
        }
        give(chunk, sizes[layer.weight], into[layer.weight]);
        if (layer.bias >= 0) {
            own.sums(out);
            give(chunk, sizes[layer.bias], into[layer.bias]);
        }
        if (index) slopes_at_inputs(index, out, to, weight(index, weights));
    }

    void move_forward(int index, int chunk, const Real* const* weights, const int64_t* sizes,
                      const Real* const* outer) {
        const Layer& layer = layers[index];
        const auto in = values[index].part(chunk), out = values[index + 1].part(chunk);
        const Grid<Real>&moved = moves[index], &to = moves[index + 1];
        switch (layer.kind) {
            case POOL: pool_move(in, out, moved, to, layer.kernel_high, layer.kernel_wide); return;
            case RECTIFIER: rectify_back(in, moved, to, 1, Real(layer.below)); return;
            case SIGMOID: squash_back(out, moved, to, 1); return;
        }
        if (layer.bias >= 0) take(chunk, sizes[layer.bias], outer[layer.bias]);
        own.spread(to, layer.bias >= 0);
        take(chunk, sizes[layer.weight], outer[layer.weight]);
        if (layer.kind == CONVOLUTION) {
            own.convolve(*convolutions[index], in, to);
            if (index) convolutions[index]->forward(moved, to, 1, weight(index, weights), nullptr, true);
        } else {
            own.multiply(in, to, layer.outputs, int(taps(layer)), false);
            if (index) affine(layer, moved, to, weight(index, weights), nullptr, true);
        }
    }

    void move_loss_slopes(const Real* targets, int chunk, Real* by_targets) {
        const Grid<Real>&outputs = values[count], &moved = moves[count], &to = slope_moves[count];
        const int classes = outputs.channels;
        for (int lane = 0; lane < lanes(chunk); lane++) {
            const int64_t sample = int64_t(chunk) * N + lane;
            const Real *wanted = targets + sample * classes, *from = outputs.at(chunk, 0, 0, 0) + lane;
            const Real* move = moved.data + lane;
            Real* into = to.data + lane;
            Real most = from[0], total = 0, mass = 0, mean = 0;
            for (int row = 1; row < classes; row++) most = std::max(most, from[row * N]);
            for (int row = 0; row < classes; row++) total += into[row * N] = std::exp(from[row * N] - most);
            for (int row = 0; row < classes; row++) into[row * N] /= total, mass += wanted[row];
            for (int row = 0; row < classes; row++) mean += into[row * N] * move[row * N];
            for (int row = 0; row < classes; row++) {
                const Real apart = move[row * N] - mean;
                by_targets[sample * classes + row] = -apart / batch;
                into[row * N] *= apart * mass / batch;
            }
        }
    }

    void move_backward(int index, int chunk, const Real* const* weights, const int64_t* sizes,
                       const Real* const* outer) {
        const Layer& layer = layers[index];
        const auto in = values[index].part(chunk), after = values[index + 1].part(chunk);
        const auto slope = slopes[index + 1].part(chunk);
        const Grid<Real>&out = slope_moves[index + 1], &to = slope_moves[index];
        switch (layer.kind) {
            case POOL: pool_back(in, after, out, to, 1, layer.kernel_high, layer.kernel_wide); return;
            case RECTIFIER: rectify_back(in, out, to, 1, Real(layer.below)); return;
            case SIGMOID: squash_move(after, slope, moves[index], out, to); return;
        }
        slopes_at_inputs(index, out, to, weight(index, weights));
        take(chunk, sizes[layer.weight], outer[layer.weight]);
        if (layer.kind == CONVOLUTION) {
            own.convolve_back(*convolutions[index], slope, to);
        } else {
            own.multiply(slope, to, layer.outputs, int(taps(layer)), true);
        }
    }

    void give(int chunk, int64_t size, Real* into) const {
        own.give(int64_t(chunk) * N, lanes(chunk), batch, size, into);
    }
    void take(int chunk, int64_t size, const Real* from) const {
        own.take(int64_t(chunk) * N, lanes(chunk), batch, size, from);
    }

    // What all samples have in common.

    void affine(const Layer& layer, const Grid<Real>& in, const Grid<Real>& out, const Real* weight, const Real* bias,
                bool add) const {
        const int64_t inputs = taps(layer);
        const auto offsets = steps<Real>(inputs);
        product<Real>({weight, inputs, 1, in.data, N, offsets.data(), int(inputs), bias, out.data, N, N, add},
                      layer.outputs, 1);
    }

    void slopes_at_inputs(int index, const Grid<Real>& out, const Grid<Real>& to, const Real* weight) {
        const Layer& layer = layers[index];
        if (layer.kind == CONVOLUTION) return convolutions[index]->slopes_at_inputs(out, to, 1, weight, turned);
        const int64_t inputs = taps(layer);
        const auto offsets = steps<Real>(layer.outputs);
        product<Real>({weight, 1, inputs, out.data, N, offsets.data(), layer.outputs, nullptr, to.data, N, N},
                      int(inputs), 1);
    }
};

}  // namespace
