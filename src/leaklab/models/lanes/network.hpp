// One convolutional network: outputs, loss and gradients of a batch.

#pragma once

#include "layers.hpp"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>

namespace {

enum Kind : int32_t { CONVOLUTION, AFFINE, POOL, RECTIFIER, DROPOUT, SIGMOID };

struct Layer {  // as in description.py
    int32_t kind, channels, high, wide;                  // and the size of its inputs
    int32_t outputs, kernel_high, kernel_wide, padding;  // windows of a pooling do not overlap
    int32_t stride;                                      // of a convolution
    int32_t weight, bias, mask;                          // places in the lists of tensors; -1: none
    double below;                                        // factor of a rectifier below 0
};

// The values before a layer, or behind the last one.
template <typename Real> Grid<Real> grid_before(const std::vector<Layer>& layers, int index) {
    if (index == int(layers.size())) return {layers.back().outputs, 1, 1, 0, nullptr};
    const Layer& layer = layers[index];
    return {layer.channels, layer.high, layer.wide, layer.kind == CONVOLUTION ? layer.padding : 0, nullptr};
}

// Adds the seconds of its life to a number, if there is one.
struct Watch {
    double* to;
    std::chrono::steady_clock::time_point began{};

    explicit Watch(double* to_) : to(to_) {
        if (to) began = std::chrono::steady_clock::now();
    }
    ~Watch() {
        if (to) *to += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    }
};

template <typename Real> class Network {
    static constexpr int N = Lanes<Real>::N;

    const std::vector<Layer> layers;
    const int count, batch, chunks;
    std::vector<Grid<Real>> values, slopes;  // before each layer, and behind the last one
    std::vector<std::unique_ptr<Convolution<Real>>> convolutions;
    std::vector<std::unique_ptr<Affine<Real>>> affines;
    Scratch<Real> scratch;
    std::unique_ptr<Real, decltype(&std::free)> memory{nullptr, &std::free};

   public:
    double* seconds = nullptr;  // [2][layers], forwards and backwards, for who wants to know

    Network(const Layer* first, int count_, int batch_)
        : layers(first, first + count_), count(count_), batch(batch_), chunks((batch_ + N - 1) / N),
          values(count_ + 1), slopes(count_ + 1), convolutions(count_), affines(count_) {
        for (int index = 0; index <= count; index++)
            values[index] = slopes[index] = grid_before<Real>(layers, index);
        const size_t size = place(nullptr) * sizeof(Real);
        memory.reset(static_cast<Real*>(std::aligned_alloc(BYTES, size)));
        if (!memory) throw std::bad_alloc();
        std::memset(memory.get(), 0, size);  // borders, and lanes without a sample, stay as they are
        place(memory.get());
        for (int index = 0; index < count; index++) {
            const Layer& layer = layers[index];
            if (layer.kind == CONVOLUTION)
                convolutions[index] = std::make_unique<Convolution<Real>>(values[index], values[index + 1],
                                                                          layer.kernel_high, layer.kernel_wide,
                                                                          layer.stride);
            if (layer.kind == AFFINE)
                affines[index] = std::make_unique<Affine<Real>>(inputs(layer), layer.outputs, batch);
        }
    }

    int64_t image_size() const { return int64_t(batch) * inputs(layers[0]); }
    int64_t output_size() const { return int64_t(batch) * values[count].channels; }

    void read(const Real* images) {  // [batch, C, H, W]
        const Grid<Real>& grid = values[0];
        for (int64_t sample = 0; sample < batch; sample++)
            each_row(grid, 1, [&](int, int channel, int y) {
                Real* to = grid.inside(int(sample / N), channel, y) + sample % N;
                for (int64_t x = 0; x < grid.wide; x++) to[x * N] = *images++;
            });
    }

    void forward(const Real* const* weights, const Real* const* masks) {
        for (int index = 0; index < count; index++) {
            const Layer& layer = layers[index];
            const Real* weight = layer.weight < 0 ? nullptr : weights[layer.weight];
            const Real* bias = layer.bias < 0 ? nullptr : weights[layer.bias];
            const Grid<Real>&in = values[index], &out = values[index + 1];
            const Watch watch(seconds ? seconds + index : nullptr);
            switch (layer.kind) {
                case CONVOLUTION: convolutions[index]->forward(in, out, chunks, weight, bias); break;
                case AFFINE: affines[index]->forward(in, out, weight, bias); break;
                case POOL: pool(in, out, chunks, layer.kernel_high, layer.kernel_wide); break;
                case RECTIFIER: rectify(in, out, chunks, Real(layer.below)); break;
                case DROPOUT: drop(in, out, batch, masks[layer.mask]); break;
                case SIGMOID: squash(in, out, chunks); break;
            }
        }
    }

    void write(Real* outputs) const {  // [classes, batch]
        for (int row = 0; row < values[count].channels; row++)
            for (int sample = 0; sample < batch; sample++)
                *outputs++ = values[count].at(sample / N, row, 0, 0)[sample % N];
    }

    Real loss(const int64_t* labels) {  // mean cross-entropy; its slopes at the outputs are kept
        double sum = 0;
        const int classes = values[count].channels;
        for (int sample = 0; sample < batch; sample++) {
            const Real* own = values[count].at(sample / N, 0, 0, 0) + sample % N;
            Real* to = slopes[count].at(sample / N, 0, 0, 0) + sample % N;
            Real most = own[0], total = 0;
            for (int row = 1; row < classes; row++) most = std::max(most, own[row * N]);
            for (int row = 0; row < classes; row++) total += to[row * N] = std::exp(own[row * N] - most);
            for (int row = 0; row < classes; row++) to[row * N] /= total * batch;
            to[labels[sample] * N] -= Real(1) / batch;
            sum += std::log(total) + most - own[labels[sample] * N];
        }
        return Real(sum / batch);
    }

    // Gradients by place in `weights`; nullptr: not wanted. Nothing is done below layer `lowest`.
    void backward(const Real* const* weights, const Real* const* masks, Real* const* gradients, int lowest) {
        for (int index = count - 1; index >= lowest; index--) {
            const Layer& layer = layers[index];
            const Real* weight = layer.weight < 0 ? nullptr : weights[layer.weight];
            Real* gradient = layer.weight < 0 ? nullptr : gradients[layer.weight];
            const Grid<Real>&in = values[index], &out = slopes[index + 1], &to = slopes[index];
            const bool inner = index > lowest;
            const Watch watch(seconds ? seconds + count + index : nullptr);
            if (layer.bias >= 0 && gradients[layer.bias]) sums(out, chunks, gradients[layer.bias]);
            switch (layer.kind) {
                case CONVOLUTION: {
                    Convolution<Real>& own = *convolutions[index];
                    if (gradient) correlation(out, in, chunks, own.stride, own.taps, gradient);
                    if (inner) own.slopes_at_inputs(out, to, chunks, weight, scratch.kernels);
                    break;
                }
                case AFFINE:
                    affines[index]->turn_slopes(out, scratch);
                    if (gradient) affines[index]->gradient(in, gradient, scratch);
                    if (inner) affines[index]->slopes_at_inputs(to, weight, scratch);
                    break;
                case POOL:
                    if (inner) pool_back(in, values[index + 1], out, to, chunks, layer.kernel_high, layer.kernel_wide);
                    break;
                case RECTIFIER:
                    if (inner) rectify_back(in, out, to, chunks, Real(layer.below));
                    break;
                case DROPOUT:
                    if (inner) drop(out, to, batch, masks[layer.mask]);
                    break;
                case SIGMOID:
                    if (inner) squash_back(values[index + 1], out, to, chunks);
                    break;
            }
        }
    }

   private:
    static int inputs(const Layer& layer) { return layer.channels * layer.high * layer.wide; }

    // Gives every grid its part of the memory, and returns how many values are needed.
    int64_t place(Real* first) {
        int64_t kernels = 0, most = 0, outputs = 0;
        Parts<Real> parts{first};
        for (auto* grids : {&values, &slopes})
            for (auto& grid : *grids) grid.data = parts.take(chunks * grid.chunk());
        for (const Layer& layer : layers) {
            const int64_t taps = int64_t(layer.channels) * layer.kernel_high * layer.kernel_wide;
            if (layer.kind == CONVOLUTION) kernels = std::max(kernels, layer.outputs * taps);
            if (layer.kind == AFFINE) most = std::max<int64_t>(most, inputs(layer));
            if (layer.kind == AFFINE) outputs = std::max<int64_t>(outputs, layer.outputs);
        }
        scratch.kernels = parts.take(kernels);
        scratch.samples = parts.take(int64_t(chunks) * N * (most + N));
        scratch.slopes = parts.take(int64_t(chunks) * N * outputs);
        scratch.columns = parts.take(std::max<int64_t>(outputs, OUTPUTS) * N);
        return parts.needed;
    }
};

}  // namespace
