// What `library.py` loads: networks and trials of both kinds of numbers, and what they are asked.

#include "trials.hpp"

namespace {

template <typename Real> struct Tensors {  // of all models, or groups, one behind the other
    int count;
    Real* const* data;
    const int64_t* sizes;  // of one

    std::vector<Real*> of(int64_t index) const {
        std::vector<Real*> found(count);
        for (int place = 0; place < count; place++)
            found[place] = data[place] ? data[place] + index * sizes[place] : nullptr;
        return found;
    }
};

template <typename Real>
void gradients(Network<Real>& network, int models, int shared, const Real* images, const int64_t* labels, int64_t batch,
               Tensors<Real> masks, Tensors<Real> weights, Tensors<Real> into, Real* losses, int lowest) {
    for (int64_t model = 0; model < models; model++) {
        const int64_t group = model / shared;
        if (model % shared == 0) network.read(images + group * network.image_size());
        const auto own = weights.of(model), dropped = masks.of(group), to = into.of(model);
        network.forward(own.data(), dropped.data());
        losses[model] = network.loss(labels + group * batch);
        network.backward(own.data(), dropped.data(), to.data(), lowest);
    }
}

template <typename Real>
void outputs(Network<Real>& network, int models, int shared, const Real* images, Tensors<Real> weights, Real* into) {
    for (int64_t model = 0; model < models; model++) {
        if (model % shared == 0) network.read(images + model / shared * network.image_size());
        network.forward(weights.of(model).data(), nullptr);
        network.write(into + model * network.output_size());
    }
}

}  // namespace

#define ENTRIES(Real, NAME)                                                                                            \
    extern "C" void* open_##NAME(const Layer* layers, int count, int batch) {                                          \
        return new (std::nothrow) Network<Real>(layers, count, batch);                                                 \
    }                                                                                                                  \
    extern "C" void close_##NAME(void* network) { delete static_cast<Network<Real>*>(network); }                       \
    extern "C" void time_##NAME(void* network, double* seconds) {                                                      \
        static_cast<Network<Real>*>(network)->seconds = seconds;                                                       \
    }                                                                                                                  \
    extern "C" void gradients_##NAME(void* network, int models, int shared, const Real* images,                        \
                                     const int64_t* labels, int64_t batch, int mask_count, Real* const* masks,         \
                                     const int64_t* mask_sizes, int count, Real* const* weights,                       \
                                     const int64_t* sizes, Real* const* into, Real* losses, int lowest) {              \
        gradients<Real>(*static_cast<Network<Real>*>(network), models, shared, images, labels, batch,                  \
                        {mask_count, masks, mask_sizes}, {count, weights, sizes}, {count, into, sizes}, losses,        \
                        lowest);                                                                                       \
    }                                                                                                                  \
    extern "C" void outputs_##NAME(void* network, int models, int shared, const Real* images, int count,               \
                                   Real* const* weights, const int64_t* sizes, Real* into) {                           \
        outputs<Real>(*static_cast<Network<Real>*>(network), models, shared, images, {count, weights, sizes}, into);   \
    }                                                                                                                  \
    extern "C" void* open_trials_##NAME(const Layer* layers, int count, int trials, int batch) {                       \
        return new (std::nothrow) Trials<Real>(layers, count, trials, batch);                                          \
    }                                                                                                                  \
    extern "C" void close_trials_##NAME(void* trials) { delete static_cast<Trials<Real>*>(trials); }                   \
    extern "C" void trial_gradients_##NAME(void* trials, const Real* images, const Real* targets, int count,           \
                                           const Real* const* weights, const int64_t* sizes, Real* const* into) {      \
        static_cast<Trials<Real>*>(trials)->gradients(images, targets, weights, sizes, into, count);                   \
    }                                                                                                                  \
    extern "C" void trial_derivatives_##NAME(void* trials, const Real* targets, const Real* const* weights,            \
                                             const int64_t* sizes, const Real* const* outer, Real* by_images,          \
                                             Real* by_targets) {                                                       \
        static_cast<Trials<Real>*>(trials)->derivatives(targets, weights, sizes, outer, by_images, by_targets);        \
    }

ENTRIES(float, float32)
ENTRIES(double, float64)
