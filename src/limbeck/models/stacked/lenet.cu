// Training of many networks with two convolutions and three dense layers, a window of steps in one launch.
//
// A group of blocks trains one network; the groups are independent. In each step every block computes the gradient of
// its share of the batch, at most ROWS rows, then all blocks of the group meet, and each moves its share of the weights.
// Feature vectors have the layout [feature][row], images [row][channel][y][x].
// A pooling layer passes the gradient of four pixels to one of them, so both convolutions go backwards over the pooled
// pixels alone, with one tap of the kernel in each lane of a warp.
//
// Constants from outside: CHANNELS, HEIGHT, WIDTH, KERNEL, FILTERS_1, FILTERS_2, HIDDEN_1, HIDDEN_2, CLASSES, BATCH,
// STRIDE_0 and STRIDE_1 (lengths of a line of pixels; chosen so that the taps of a kernel lie in different memory banks),
// SHARED_BYTES, and BETA_1, BETA_2 and EPSILON of Adam.

constexpr int THREADS = 512, WARPS = THREADS / 32, ROWS = 8, TAPS = KERNEL * KERNEL, PATCH = KERNEL + 1;
constexpr int HEIGHT_1 = (HEIGHT - KERNEL + 1) / 2, WIDTH_1 = (WIDTH - KERNEL + 1) / 2, PIXELS_1 = HEIGHT_1 * WIDTH_1;
constexpr int HEIGHT_2 = (HEIGHT_1 - KERNEL + 1) / 2, WIDTH_2 = (WIDTH_1 - KERNEL + 1) / 2;
constexpr int PIXELS_2 = HEIGHT_2 * WIDTH_2, FEATURES = FILTERS_2 * PIXELS_2;
constexpr int PLANE_0 = HEIGHT * STRIDE_0, PLANE_1 = HEIGHT_1 * STRIDE_1, FILLED_1 = (FILTERS_1 + 3) / 4 * 4;
constexpr int PLANES = FILTERS_1 % 3 == 0 ? 3 : FILTERS_1 % 2 == 0 ? 2 : 1;  // that a warp writes at once

// Positions of weights and biases in a network, in the order of its layers.
constexpr int W1 = 0, B1 = W1 + FILTERS_1 * CHANNELS * TAPS, W2 = B1 + FILTERS_1, B2 = W2 + FILTERS_2 * FILTERS_1 * TAPS;
constexpr int W3 = B2 + FILTERS_2, B3 = W3 + HIDDEN_1 * FEATURES, W4 = B3 + HIDDEN_1, B4 = W4 + HIDDEN_2 * HIDDEN_1;
constexpr int W5 = B4 + HIDDEN_2, B5 = W5 + CLASSES * HIDDEN_2, WEIGHTS = (B5 + CLASSES + 3) / 4 * 4;

static_assert(BATCH <= THREADS, "a thread for each row of a batch");
static_assert(TAPS < 32, "a lane for each tap and one for the bias");
static_assert(FILTERS_2 % 4 == 0, "a thread computes four filters");
static_assert(FEATURES <= THREADS && HIDDEN_1 <= THREADS && HIDDEN_2 <= THREADS, "a thread for each feature");
static_assert(ROWS * FILTERS_1 * PLANE_1 >= WARPS * FILTERS_1 * CHANNELS * 32, "scratch of the first convolution");
static_assert(ROWS * FILTERS_1 * PLANE_1 >= THREADS * ROWS, "scratch of the dense layers");

struct Pixel {  // of a pooling: its gradient, and the position of the pixel that it passes it to
    float gradient;
    int at;
};

struct Shared {
    alignas(16) float image[ROWS * CHANNELS * PLANE_0];
    alignas(16) float pooled_1[ROWS * FILTERS_1 * PLANE_1];
    alignas(16) float gradient_1[ROWS * FILTERS_1 * PLANE_1];
    Pixel pixels_1[ROWS * FILTERS_1 * PIXELS_1], pixels_2[ROWS * FEATURES];
    alignas(16) float pooled_2[FEATURES * ROWS], hidden_1[HIDDEN_1 * ROWS], hidden_2[HIDDEN_2 * ROWS];
    alignas(16) float logits[CLASSES * ROWS];
    alignas(16) float to_hidden_1[HIDDEN_1 * ROWS], to_hidden_2[HIDDEN_2 * ROWS];
    alignas(16) float first[CHANNELS * TAPS * FILLED_1];     // weights of the first convolution: [channel, tap][filter]
    alignas(16) float second[FILTERS_1 * TAPS * FILTERS_2];  // of the second: [channel, tap][filter]
    float second_by_tap[FILTERS_2 * FILTERS_1 * TAPS];  // the same: [filter][channel, tap]
    float bias_1[FILTERS_1], bias_2[FILTERS_2];
    int label[ROWS];
};

__device__ inline void arrive(unsigned* counter) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(counter, 1);
    }
}

__device__ inline void wait_for(unsigned* counter, unsigned all) {
    if (threadIdx.x == 0) {
        unsigned seen;
        do asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
        while (seen < all);
        __threadfence();
    }
    __syncthreads();
}

// Sum 32 values over the lanes of a warp; afterwards lane i has the sum of value i in values[0].
template <int HALF>
__device__ inline void add_lanes(float (&values)[32], int lane) {
    bool upper = lane & HALF;
#pragma unroll
    for (int i = 0; i < HALF; i++) {
        float sent = upper ? values[i] : values[i + HALF], kept = upper ? values[i + HALF] : values[i];
        values[i] = kept + __shfl_xor_sync(0xffffffffu, sent, HALF);
    }
    if constexpr (HALF > 1) add_lanes<HALF / 2>(values, lane);
}

__device__ inline void load_rows(const float* values, float (&rows)[ROWS]) {
    float4 low = reinterpret_cast<const float4*>(values)[0], high = reinterpret_cast<const float4*>(values)[1];
    rows[0] = low.x, rows[1] = low.y, rows[2] = low.z, rows[3] = low.w;
    rows[4] = high.x, rows[5] = high.y, rows[6] = high.z, rows[7] = high.w;
}

// Outputs of a dense layer: a warp computes four outputs of eight rows.
template <int INPUTS, int OUTPUTS, bool RELU>
__device__ inline void dense(const float* weights, const float* bias, const float* inputs, float* outputs) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int first = warp * 4; first < OUTPUTS; first += WARPS * 4) {
        float sums[32] = {};
#pragma unroll
        for (int start = 0; start < INPUTS; start += 32) {
            int k = min(start + lane, INPUTS - 1);
            float rows[ROWS], counts = start + lane < INPUTS ? 1.0f : 0.0f;
            load_rows(inputs + k * ROWS, rows);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float weight = counts * weights[min(first + j, OUTPUTS - 1) * INPUTS + k];
#pragma unroll
                for (int r = 0; r < ROWS; r++) sums[j * ROWS + r] += weight * rows[r];
            }
        }
        add_lanes<16>(sums, lane);
        int output = first + lane / ROWS;
        if (output < OUTPUTS) {
            float sum = sums[0] + bias[output];
            outputs[output * ROWS + lane % ROWS] = RELU ? fmaxf(sum, 0.0f) : sum;
        }
    }
}

// Gradient of a dense layer's inputs, in parts that are still to be added: [part][input][row].
template <int INPUTS, int OUTPUTS>
struct Backward {
    static constexpr int LANES = (INPUTS + 31) / 32 * 32, PARTS = THREADS / LANES;

    static __device__ inline void parts(const float* weights, const float* gradient, float* scratch) {
        int k = threadIdx.x % LANES, part = threadIdx.x / LANES;
        if (k >= INPUTS || part >= PARTS) return;
        float sums[ROWS] = {};
#pragma unroll 8
        for (int output = part; output < OUTPUTS; output += PARTS) {
            float weight = weights[output * INPUTS + k], rows[ROWS];
            load_rows(gradient + output * ROWS, rows);
#pragma unroll
            for (int r = 0; r < ROWS; r++) sums[r] += weight * rows[r];
        }
        float4* into = reinterpret_cast<float4*>(scratch + (part * INPUTS + k) * ROWS);
        into[0] = make_float4(sums[0], sums[1], sums[2], sums[3]);
        into[1] = make_float4(sums[4], sums[5], sums[6], sums[7]);
    }

    static __device__ inline float sum(const float* scratch, int i) {
        float sum = 0.0f;
#pragma unroll
        for (int part = 0; part < PARTS; part++) sum += scratch[part * INPUTS * ROWS + i];
        return sum;
    }
};

// Gradient of a dense layer's weights: a warp computes 4 x 128 of them.
template <int INPUTS, int OUTPUTS>
__device__ inline void weight_gradient(const float* gradient, const float* inputs, float* weights, float* bias) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    constexpr int BLOCKS = (INPUTS + 127) / 128;
    for (int task = warp; task < (OUTPUTS + 3) / 4 * BLOCKS; task += WARPS) {
        int first = task / BLOCKS * 4, start = task % BLOCKS * 128 + lane;
        float to[4][ROWS];
#pragma unroll
        for (int i = 0; i < 4; i++) load_rows(gradient + min(first + i, OUTPUTS - 1) * ROWS, to[i]);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int k = start + 32 * j;
            float rows[ROWS];
            load_rows(inputs + min(k, INPUTS - 1) * ROWS, rows);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float sum = 0.0f;
#pragma unroll
                for (int r = 0; r < ROWS; r++) sum += to[i][r] * rows[r];
                if (k < INPUTS && first + i < OUTPUTS) weights[(first + i) * INPUTS + k] = sum;
            }
        }
    }
    for (int output = threadIdx.x; output < OUTPUTS; output += THREADS) {
        float rows[ROWS], sum = 0.0f;
        load_rows(gradient + output * ROWS, rows);
#pragma unroll
        for (int r = 0; r < ROWS; r++) sum += rows[r];
        bias[output] = sum;
    }
}

__device__ inline void stage_weights(Shared& s, const float* weights) {
    for (int i = threadIdx.x; i < FILTERS_1 * CHANNELS * TAPS; i += THREADS)
        s.first[i % (CHANNELS * TAPS) * FILLED_1 + i / (CHANNELS * TAPS)] = weights[W1 + i];
    for (int i = threadIdx.x; i < FILTERS_2 * FILTERS_1 * TAPS; i += THREADS) {
        float weight = weights[W2 + i];
        s.second_by_tap[i] = weight;
        s.second[i % (FILTERS_1 * TAPS) * FILTERS_2 + i / (FILTERS_1 * TAPS)] = weight;
    }
    if (threadIdx.x < FILTERS_1) s.bias_1[threadIdx.x] = weights[B1 + threadIdx.x];
    if (threadIdx.x < FILTERS_2) s.bias_2[threadIdx.x] = weights[B2 + threadIdx.x];
}

// Load this block's rows of a step; returns how many rows the step has.
__device__ inline int load_images(
    Shared& s, const float* __restrict__ rows, const long long* __restrict__ targets, const int* __restrict__ of_rows,
    const int* __restrict__ of_targets, int start, int share, float mean, float std
) {
    constexpr int SIZE = CHANNELS * HEIGHT * WIDTH;
    int all = __syncthreads_count(threadIdx.x < BATCH && of_rows[threadIdx.x] >= 0);
    int count = max(0, min(share, all - start));
#pragma unroll 8
    for (int i = threadIdx.x; i < count * SIZE; i += THREADS) {
        int line = i % SIZE / WIDTH, x = i % WIDTH, row = i / SIZE;
        float value = rows[(long long)of_rows[start + row] * SIZE + i % SIZE];
        s.image[row * CHANNELS * PLANE_0 + line * STRIDE_0 + x] = (value - mean) / std;
    }
    if (threadIdx.x < count) s.label[threadIdx.x] = (int)targets[of_targets[start + threadIdx.x]];
    for (int i = threadIdx.x; i < FEATURES * ROWS; i += THREADS)
        if (i % ROWS >= count) s.pooled_2[i] = 0.0f;
    return all;
}

// Largest of four sums, and which of them; the first of equal ones.
__device__ inline float largest(const float (&sums)[4], int& which) {
    float most = sums[0];
    which = 0;
#pragma unroll
    for (int q = 1; q < 4; q++)
        if (sums[q] > most) most = sums[q], which = q;
    return most;
}

__device__ inline void first_convolution(Shared& s, int count) {
    for (int i = threadIdx.x; i < count * PIXELS_1; i += THREADS) {
        int row = i / PIXELS_1, pixel = i % PIXELS_1, y = pixel / WIDTH_1, x = pixel % WIDTH_1;
        float sums[FILTERS_1][4] = {};
        for (int channel = 0; channel < CHANNELS; channel++) {
            const float* from = s.image + (row * CHANNELS + channel) * PLANE_0 + 2 * y * STRIDE_0 + 2 * x;
            float patch[PATCH][PATCH];
#pragma unroll
            for (int ky = 0; ky < PATCH; ky++)
#pragma unroll
                for (int kx = 0; kx < PATCH; kx++) patch[ky][kx] = from[ky * STRIDE_0 + kx];
#pragma unroll
            for (int tap = 0; tap < TAPS; tap++) {
                const float4* of = reinterpret_cast<const float4*>(s.first + (channel * TAPS + tap) * FILLED_1);
                float weights[FILLED_1];
#pragma unroll
                for (int part = 0; part < FILLED_1 / 4; part++)
                    reinterpret_cast<float4*>(weights)[part] = of[part];
#pragma unroll
                for (int filter = 0; filter < FILTERS_1; filter++)
#pragma unroll
                    for (int q = 0; q < 4; q++)
                        sums[filter][q] += weights[filter] * patch[tap / KERNEL + q / 2][tap % KERNEL + q % 2];
            }
        }
#pragma unroll
        for (int filter = 0; filter < FILTERS_1; filter++) {
            int which;
            float value = largest(sums[filter], which) + s.bias_1[filter];
            s.pooled_1[(row * FILTERS_1 + filter) * PLANE_1 + y * STRIDE_1 + x] = fmaxf(value, 0.0f);
            s.pixels_1[(row * FILTERS_1 + filter) * PIXELS_1 + pixel].at =
                row * CHANNELS * PLANE_0 + (2 * y + which / 2) * STRIDE_0 + 2 * x + which % 2;
        }
    }
}

__device__ inline void second_convolution(Shared& s, int count) {
    for (int i = threadIdx.x; i < FILTERS_2 / 4 * count * PIXELS_2; i += THREADS) {
        int four = i / (count * PIXELS_2) * 4, row = i % (count * PIXELS_2) / PIXELS_2, pixel = i % PIXELS_2;
        int y = pixel / WIDTH_2, x = pixel % WIDTH_2;
        float sums[4][4] = {};
        for (int channel = 0; channel < FILTERS_1; channel++) {
            const float* from = s.pooled_1 + (row * FILTERS_1 + channel) * PLANE_1 + 2 * y * STRIDE_1 + 2 * x;
            float patch[PATCH][PATCH];
#pragma unroll
            for (int ky = 0; ky < PATCH; ky++)
#pragma unroll
                for (int kx = 0; kx < PATCH; kx++) patch[ky][kx] = from[ky * STRIDE_1 + kx];
#pragma unroll
            for (int tap = 0; tap < TAPS; tap++) {
                float4 of = *reinterpret_cast<const float4*>(s.second + (channel * TAPS + tap) * FILTERS_2 + four);
                float weights[4] = {of.x, of.y, of.z, of.w};
#pragma unroll
                for (int j = 0; j < 4; j++)
#pragma unroll
                    for (int q = 0; q < 4; q++)
                        sums[j][q] += weights[j] * patch[tap / KERNEL + q / 2][tap % KERNEL + q % 2];
            }
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int which, filter = four + j;
            float value = largest(sums[j], which) + s.bias_2[filter];
            s.pooled_2[(filter * PIXELS_2 + pixel) * ROWS + row] = fmaxf(value, 0.0f);
            s.pixels_2[row * FEATURES + filter * PIXELS_2 + pixel].at =
                (2 * y + which / 2) * STRIDE_1 + 2 * x + which % 2;
        }
    }
}

// The logits become the gradient of the mean cross-entropy.
__device__ inline void loss_gradient(Shared& s, int count, float share) {
    int row = threadIdx.x;
    if (row >= ROWS) return;
    float most = s.logits[row], sum = 0.0f;
    for (int i = 1; i < CLASSES; i++) most = fmaxf(most, s.logits[i * ROWS + row]);
    for (int i = 0; i < CLASSES; i++) sum += expf(s.logits[i * ROWS + row] - most);
    for (int i = 0; i < CLASSES; i++) {
        float probability = expf(s.logits[i * ROWS + row] - most) / sum;
        s.logits[i * ROWS + row] = row < count ? (probability - (i == s.label[row] ? 1.0f : 0.0f)) * share : 0.0f;
    }
}

// From the second pooling to the first one: one row and a few planes for each warp. With few rows, several warps take
// some of the filters each, and put their sums where the other rows would be.
template <int AT_ONCE>
__device__ inline void to_first_pooling(Shared& s, int count, int parts) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int tap = lane / KERNEL * STRIDE_1 + lane % KERNEL;
    constexpr int GROUPS = FILTERS_1 / AT_ONCE;
    for (int task = warp; task < parts * count * GROUPS; task += WARPS) {
        int plane = task % GROUPS * AT_ONCE, row = task / GROUPS % count, part = task / GROUPS / count;
        float* into = s.gradient_1 + ((part * count + row) * FILTERS_1 + plane) * PLANE_1 + tap;
        for (int filter = part; filter < FILTERS_2; filter += parts) {
            const Pixel* pixels = s.pixels_2 + row * FEATURES + filter * PIXELS_2;
            float weights[AT_ONCE];
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
                weights[j] = lane < TAPS ? s.second_by_tap[(filter * FILTERS_1 + plane + j) * TAPS + lane] : 0.0f;
            for (int first = 0; first < PIXELS_2; first += 4) {
                Pixel from[4];
#pragma unroll
                for (int i = 0; i < 4; i++) from[i] = pixels[min(first + i, PIXELS_2 - 1)];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    if (from[i].gradient == 0.0f || first + i >= PIXELS_2) continue;
                    if (lane < TAPS) {
                        float sums[AT_ONCE];
#pragma unroll
                        for (int j = 0; j < AT_ONCE; j++) sums[j] = into[j * PLANE_1 + from[i].at];
#pragma unroll
                        for (int j = 0; j < AT_ONCE; j++)
                            into[j * PLANE_1 + from[i].at] = sums[j] + from[i].gradient * weights[j];
                    }
                    __syncwarp();
                }
            }
        }
    }
}

__device__ inline void second_weight_gradient(Shared& s, int count, float* gradient) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int tap = lane < TAPS ? lane / KERNEL * STRIDE_1 + lane % KERNEL : 0;
    for (int filter = warp; filter < FILTERS_2; filter += WARPS) {
        float sums[FILTERS_1] = {}, bias = 0.0f;
        for (int row = 0; row < count; row++)
#pragma unroll 4
            for (int pixel = 0; pixel < PIXELS_2; pixel++) {
                Pixel to = s.pixels_2[row * FEATURES + filter * PIXELS_2 + pixel];
                const float* from = s.pooled_1 + row * FILTERS_1 * PLANE_1 + to.at + tap;
#pragma unroll
                for (int channel = 0; channel < FILTERS_1; channel++)
                    sums[channel] += to.gradient * from[channel * PLANE_1];
                bias += to.gradient;
            }
#pragma unroll
        for (int channel = 0; channel < FILTERS_1; channel++)
            if (lane < TAPS) gradient[W2 + (filter * FILTERS_1 + channel) * TAPS + lane] = sums[channel];
        if (lane == TAPS) gradient[B2 + filter] = bias;
    }
}

// Each warp takes some pixels; their sums are added in `scratch`.
__device__ inline void first_weight_gradient(Shared& s, int count, float* scratch, float* gradient) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int tap = lane < TAPS ? lane / KERNEL * STRIDE_0 + lane % KERNEL : 0;
    float sums[FILTERS_1 * CHANNELS] = {}, bias[FILTERS_1] = {};
#pragma unroll 2
    for (int i = warp; i < count * PIXELS_1; i += WARPS) {
        const Pixel* pixels = s.pixels_1 + i / PIXELS_1 * FILTERS_1 * PIXELS_1 + i % PIXELS_1;
#pragma unroll
        for (int filter = 0; filter < FILTERS_1; filter++) {
            Pixel to = pixels[filter * PIXELS_1];
#pragma unroll
            for (int channel = 0; channel < CHANNELS; channel++)
                sums[filter * CHANNELS + channel] += to.gradient * s.image[to.at + tap + channel * PLANE_0];
            bias[filter] += to.gradient;
        }
    }
#pragma unroll
    for (int i = 0; i < FILTERS_1 * CHANNELS; i++)
        scratch[(warp * FILTERS_1 * CHANNELS + i) * 32 + lane] = lane == TAPS ? bias[i / CHANNELS] : sums[i];
    __syncthreads();
    for (int i = threadIdx.x; i < FILTERS_1 * CHANNELS * 32; i += THREADS) {
        float sum = 0.0f;
#pragma unroll
        for (int part = 0; part < WARPS; part++) sum += scratch[part * FILTERS_1 * CHANNELS * 32 + i];
        if (i % 32 < TAPS) gradient[W1 + i / 32 * TAPS + i % 32] = sum;
        if (i % 32 == TAPS && i / 32 % CHANNELS == 0) gradient[B1 + i / 32 / CHANNELS] = sum;
    }
}

// Gradient of `count` rows; `share` is the share of a row in the mean loss.
__device__ inline void backward(Shared& s, const float* weights, float* gradient, int count, float share) {
    loss_gradient(s, count, share);
    __syncthreads();
    weight_gradient<HIDDEN_2, CLASSES>(s.logits, s.hidden_2, gradient + W5, gradient + B5);
    Backward<HIDDEN_2, CLASSES>::parts(weights + W5, s.logits, s.gradient_1);
    __syncthreads();
    for (int i = threadIdx.x; i < HIDDEN_2 * ROWS; i += THREADS)
        s.to_hidden_2[i] = s.hidden_2[i] > 0.0f ? Backward<HIDDEN_2, CLASSES>::sum(s.gradient_1, i) : 0.0f;
    __syncthreads();
    weight_gradient<HIDDEN_1, HIDDEN_2>(s.to_hidden_2, s.hidden_1, gradient + W4, gradient + B4);
    Backward<HIDDEN_1, HIDDEN_2>::parts(weights + W4, s.to_hidden_2, s.gradient_1);
    __syncthreads();
    for (int i = threadIdx.x; i < HIDDEN_1 * ROWS; i += THREADS)
        s.to_hidden_1[i] = s.hidden_1[i] > 0.0f ? Backward<HIDDEN_1, HIDDEN_2>::sum(s.gradient_1, i) : 0.0f;
    __syncthreads();
    weight_gradient<FEATURES, HIDDEN_1>(s.to_hidden_1, s.pooled_2, gradient + W3, gradient + B3);
    Backward<FEATURES, HIDDEN_1>::parts(weights + W3, s.to_hidden_1, s.gradient_1);
    __syncthreads();
    for (int i = threadIdx.x; i < FEATURES * ROWS; i += THREADS)
        s.pixels_2[i % ROWS * FEATURES + i / ROWS].gradient =
            s.pooled_2[i] > 0.0f ? Backward<FEATURES, HIDDEN_1>::sum(s.gradient_1, i) : 0.0f;
    __syncthreads();
    for (int i = threadIdx.x; i < ROWS * FILTERS_1 * PLANE_1; i += THREADS) s.gradient_1[i] = 0.0f;
    __syncthreads();
    int parts = max(1, min(ROWS / max(count, 1), WARPS / max(count * FILTERS_1, 1)));
    if (count * FILTERS_1 <= WARPS) to_first_pooling<1>(s, count, parts);
    else to_first_pooling<PLANES>(s, count, parts);
    second_weight_gradient(s, count, gradient);
    __syncthreads();
    for (int i = threadIdx.x; i < count * FILTERS_1 * PIXELS_1; i += THREADS) {
        int at = i / PIXELS_1 * PLANE_1 + i % PIXELS_1 / WIDTH_1 * STRIDE_1 + i % WIDTH_1;
        float sum = 0.0f;
        for (int part = 0; part < parts; part++) sum += s.gradient_1[part * count * FILTERS_1 * PLANE_1 + at];
        s.pixels_1[i].gradient = s.pooled_1[at] > 0.0f ? sum : 0.0f;
    }
    __syncthreads();
    first_weight_gradient(s, count, s.pooled_1, gradient);
}

__device__ inline void forward(Shared& s, const float* weights, int count) {
    first_convolution(s, count);
    __syncthreads();
    second_convolution(s, count);
    __syncthreads();
    dense<FEATURES, HIDDEN_1, true>(weights + W3, weights + B3, s.pooled_2, s.hidden_1);
    __syncthreads();
    dense<HIDDEN_1, HIDDEN_2, true>(weights + W4, weights + B4, s.hidden_1, s.hidden_2);
    __syncthreads();
    dense<HIDDEN_2, CLASSES, false>(weights + W5, weights + B5, s.hidden_2, s.logits);
    __syncthreads();
}

// The step of an optimizer for this block's share of the weights; the gradient is the sum of the group's gradients.
__device__ inline void move(
    float* __restrict__ weights, float* __restrict__ first, float* __restrict__ second,
    const float* __restrict__ gradients, int member, int group, float rate, float scale, float decay, float momentum,
    int is_adam
) {
    for (int i = (member * THREADS + threadIdx.x) * 4; i < WEIGHTS; i += group * THREADS * 4) {
        float gradient[4] = {}, weight[4], mean[4], square[4];
#pragma unroll 8
        for (int k = 0; k < group; k++) {
            float4 part = __ldcg(reinterpret_cast<const float4*>(gradients + (long long)k * WEIGHTS + i));
            gradient[0] += part.x, gradient[1] += part.y, gradient[2] += part.z, gradient[3] += part.w;
        }
        *reinterpret_cast<float4*>(weight) = __ldcg(reinterpret_cast<const float4*>(weights + i));
        *reinterpret_cast<float4*>(mean) = __ldcg(reinterpret_cast<const float4*>(first + i));
        if (is_adam) *reinterpret_cast<float4*>(square) = __ldcg(reinterpret_cast<const float4*>(second + i));
#pragma unroll
        for (int j = 0; j < 4; j++) {
            gradient[j] += decay * weight[j];
            if (is_adam) {
                mean[j] += (gradient[j] - mean[j]) * float(1 - BETA_1);
                square[j] = square[j] * float(BETA_2) + gradient[j] * gradient[j] * float(1 - BETA_2);
                weight[j] -= mean[j] / (sqrtf(square[j]) * scale + float(EPSILON)) * rate;
            } else {
                mean[j] = mean[j] * momentum + gradient[j];
                weight[j] -= mean[j] * rate;
            }
        }
        *reinterpret_cast<float4*>(weights + i) = *reinterpret_cast<float4*>(weight);
        *reinterpret_cast<float4*>(first + i) = *reinterpret_cast<float4*>(mean);
        if (is_adam) *reinterpret_cast<float4*>(second + i) = *reinterpret_cast<float4*>(square);
    }
}

static_assert(sizeof(Shared) <= SHARED_BYTES, "the shared memory that the caller asks for");

// rows: images; of_rows, of_targets [steps][slots][BATCH], in each batch the missing rows (-1) last; rates, scales
// [steps][slots]; weights, first, second [slots][WEIGHTS]; gradients [blocks][WEIGHTS]; counters [groups], 0 at the start;
// active: the slot of each group.
extern "C" __global__ void __launch_bounds__(THREADS, 1) train(
    const float* rows, const long long* targets, const int* of_rows, const int* of_targets, const float* rates,
    const float* scales, float* weights, float* first, float* second, float* gradients, unsigned* counters,
    const int* active, int slots, int steps, int group, double mean, double std, double decay, double momentum, int is_adam
) {
    extern __shared__ float4 memory[];
    Shared& s = *reinterpret_cast<Shared*>(memory);
    int network = blockIdx.x / group, member = blockIdx.x % group, slot = active[network];
    int share = (BATCH + group - 1) / group, start = member * share;
    unsigned* counter = counters + network;
    unsigned met = 0;
    weights += (long long)slot * WEIGHTS, first += (long long)slot * WEIGHTS, second += (long long)slot * WEIGHTS;
    gradients += (long long)network * group * WEIGHTS;
    auto load = [&](int step) {
        long long at = ((long long)step * slots + slot) * BATCH;
        return load_images(s, rows, targets, of_rows + at, of_targets + at, start, share, mean, std);
    };
    int all = load(0);
    for (int step = 0; step < steps; step++) {
        stage_weights(s, weights);
        __syncthreads();
        int count = max(0, min(share, all - start));
        forward(s, weights, count);
        backward(s, weights, gradients + (long long)member * WEIGHTS, count, 1.0f / max(all, 1));
        arrive(counter);
        if (step + 1 < steps) all = load(step + 1);  // while the others arrive
        wait_for(counter, met += group);
        float rate = rates[(long long)step * slots + slot], scale = scales[(long long)step * slots + slot];
        move(weights, first, second, gradients, member, group, rate, scale, decay, momentum, is_adam);
        arrive(counter);
        wait_for(counter, met += group);
    }
}
