#!/bin/sh
# All that docs/results.md and docs/skew.md need a GPU for, one step after the other.
# What a step has finished is kept in FOLDER and not run again. LIMBECK_DATA names the folder with the data sets.
#   sh benchmarks/on_a_gpu.sh FOLDER [STEP ...]      steps: mnist vote parts cifar fedmd fedkd
set -eu
kept=$1
shift
steps=${*:-mnist vote parts cifar fedmd fedkd}
mkdir -p "$kept"

mnist() { # FedKT's Table 1: FedAvg and its kin at 50 rounds, and FedKT as their start
    limbeck compare examples/mnist_iterative.toml --seeds 1 --with "fedprox,scaffold,fedkt-prox:then.rounds=50,fedkt,solo" \
        --out "$kept/results"
}

vote() { # the vote by default beside the printed one, at the paper's full schedule
    limbeck sweep examples/mnist_full.toml --set 'algorithm.voting={}' --over data.split.beta=0.1,0.5 --with fedkt:voting=paper \
        --out "$kept/results"
}

parts() { # the parts of the vote one by one, and some pairs, on a short schedule: without noise, and corrected teachers with it
    of=fedkt:voting
    pairs="$of.weights=equal:voting.labels=leader,$of.votes=hard:voting.labels=leader,$of.teachers=prior-corrected:voting.labels=leader"
    short="--set model.recipe.epochs=5 --set algorithm.voting={} --seeds 1 --out $kept/results"
    for seed in 5 6 7 8 9; do
        limbeck sweep examples/mnist_full.toml $short --set seed=$seed --over data.split.beta=0.1,0.5,10.0 --over data.parties=5,20 \
            --with "$of=paper,$of.weights=class-share,$of.weights=equal,$of.weights=rare-class,$of.weights=accuracy,$of.votes=hard,$of.labels=leader,$of.teachers=prior-corrected,$pairs,$of.ask=groups,$of.ask=directions"
        for level in L1:20:5 L2:5:25; do
            set -- $(echo $level | tr : ' ')
            limbeck sweep examples/mnist_full.toml $short --set seed=$seed --set algorithm.partitions=1 --set data.parties=$2 --set algorithm.subsets=$3 \
                --set "algorithm.privacy={level=\"$1\",epsilon=1.0}" --over algorithm.privacy.epsilon=1.0,3.0,8.0 \
                --with "$of.teachers=prior-corrected,$of.teachers=prior-corrected:voting.labels=leader"
        done
    done
}

cifar() { # every method beside every other
    limbeck compare examples/cifar_iterative.toml --seeds 1 --out "$kept/results" \
        --set 'model={name="resnet-8",recipe={epochs=20,batch=64}}' --set training.precision=bfloat16 \
        --with "fedprox,fedavgm,feddf,fedgen,solo,fedmd:start=none:settle={epochs=10,batch=64}:revisit={epochs=1,batch=64},fedkd:noise=none:local={epochs=20,batch=64}:distil={epochs=20}"
}

fedmd() { # FedMD's and FedMD-NFDP's own scenarios
    for scenario in femnist cifar; do
        python benchmarks/fedmd_papers.py $scenario --starts "$kept/starts-$scenario" --set training.precision=tf32 \
            --kept "$kept/$scenario.jsonl" --only '^(?!.*(cifar n|cifar softmax))'
    done
}

fedkd() { # FedKD's Tables 1 and 2 and Figure 2
    python benchmarks/fedkd.py local --kept "$kept/fedkd" --set training.checkpoint="$kept/checkpoint"
    python benchmarks/fedkd.py distil --kept "$kept/fedkd" --set training.compile=always --only '^(table|figure|no noise)'
    python benchmarks/fedkd.py draw --kept "$kept/fedkd" --picture "$kept/figure2.png"
}

for step in $steps; do
    echo "== $step"
    "$step"
done
