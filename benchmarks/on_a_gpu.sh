#!/bin/sh
# What docs/results.md and docs/skew.md need a GPU for, one step after the other.
# Finished runs are stored in FOLDER and not repeated. LIMBECK_DATA names the folder with the data sets.
#   sh benchmarks/on_a_gpu.sh FOLDER [STEP ...]      steps: mnist vote parts cifar fedmd fedkd
set -eu
kept=$1
shift
steps=${*:-mnist vote parts cifar fedmd fedkd}
mkdir -p "$kept"

mnist() { # FedKT's Table 1: FedAvg and related methods at 50 rounds, also with FedKT as their start
    limbeck compare examples/mnist_iterative.toml --seeds 1 --with "fedprox,scaffold,fedkt-prox:then.rounds=50,fedkt,solo" \
        --out "$kept/results"
}

vote() { # fedvote beside fedkt, at the paper's full schedule
    limbeck sweep examples/mnist_full.toml --set algorithm.name=fedvote --over data.split.beta=0.1,0.5 --with fedkt \
        --out "$kept/results"
}

parts() { # fedvote with one part changed at a time, on a short schedule without noise
    short="--set algorithm.name=fedvote --set model.recipe.epochs=5 --seeds 5 --out $kept/results"
    limbeck sweep examples/mnist_full.toml $short --set seed=5 --over data.split.beta=0.1,0.5,10.0 --over data.parties=5,20 \
        --with "fedkt,fedvote:weights=equal,fedvote:labels=leader,fedvote:weights=equal:labels=leader"
}

cifar() { # all methods side by side
    limbeck compare examples/cifar_iterative.toml --seeds 1 --out "$kept/results" \
        --set 'model={name="resnet-8",recipe={epochs=20,batch=64}}' --set training.precision=bfloat16 \
        --with "fedprox,fedavgm,feddf,fedgen,solo,fedmd:start=none:fine_tune={epochs=10,batch=64}:revisit={epochs=1,batch=64},fedkd:mechanism=none:local={epochs=20,batch=64}:distil={epochs=20}"
}

fedmd() { # FedMD's and FedMD-NFDP's own scenarios
    for scenario in femnist cifar; do
        python benchmarks/fedmd_papers.py $scenario --starts "$kept/starts-$scenario" --set training.precision=tf32 \
            --out "$kept/$scenario.jsonl" --only '^(?!.*(cifar n|cifar softmax))'
    done
}

fedkd() { # FedKD's Tables 1 and 2 and Figure 2
    python benchmarks/fedkd.py local --out "$kept/fedkd" --set training.checkpoint="$kept/checkpoint"
    python benchmarks/fedkd.py distil --out "$kept/fedkd" --set training.compile=always --only '^(table|figure|no noise)'
    python benchmarks/fedkd.py draw --out "$kept/fedkd" --picture "$kept/figure2.png"
}

for step in $steps; do
    echo "== $step"
    "$step"
done
