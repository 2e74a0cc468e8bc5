"""JAX with its defaults: a small network trained on made-up data, whole steps
compiled. The last line is equal each run."""

import sys

import jax
import jax.numpy as jnp
import numpy as np


def init(key, sizes):
    """He-initialised layers."""
    keys = jax.random.split(key, len(sizes) - 1)
    return [(jax.random.normal(k, (m, n)) * np.sqrt(2.0 / m), jnp.zeros(n))
            for k, m, n in zip(keys, sizes[:-1], sizes[1:])]


def loss(layers, x, y):
    """Mean square error."""
    for weight, bias in layers[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = layers[-1]
    return jnp.mean((x @ weight + bias - y) ** 2)


@jax.jit
def step(layers, x, y):
    """One step of gradient descent."""
    value, slopes = jax.value_and_grad(loss)(layers, x, y)
    return value, jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, layers,
                                         slopes)


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    assert jax.devices()[0].platform != "cpu", "JAX sees no card"
    rng = np.random.default_rng(3)
    layers = init(jax.random.PRNGKey(0), [256, 1024, 1024, 1024, 16])
    value = None
    for index in range(steps):
        # A few shapes only: each one is compiled.
        batch = (128, 256, 512)[index % 3]
        x = rng.standard_normal((batch, 256), dtype=np.float32)
        y = np.stack([x[:, i::16].sum(axis=1) for i in range(16)], axis=1)
        value, layers = step(layers, jnp.asarray(x), jnp.asarray(y))
    norm = float(sum(jnp.sum(w * w) for w, _ in layers))
    print("result loss=%r norm=%r" % (float(value), norm))


main()
