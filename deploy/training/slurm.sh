#!/bin/sh
# A training on two nodes under Slurm: sbatch deploy/training/slurm.sh
# The workers learn of each other from Slurm. A job that is put back into the queue, or sent again,
# goes on at its last checkpoint; the folder of the run has to be one that all nodes see.
#SBATCH --job-name=zoo-train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --signal=TERM@120
# #SBATCH --gpus-per-task=1

srun zoo train translate --data multi30k --source en --target de \
    --strategy multiworker --effective-batch-tokens 8192 --output "$HOME/runs/en_de"
