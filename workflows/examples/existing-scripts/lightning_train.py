"""Fits a small network with Lightning; the trainer writes a checkpoint each epoch and goes on from the last one."""
import argparse
import os

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset


class Sines(L.LightningDataModule):
    def __init__(self, batch_size):
        super().__init__()
        self.batch_size = batch_size

    def train_dataloader(self):
        generator = torch.Generator().manual_seed(0)
        x = torch.rand(2048, 8, generator=generator) * 2 - 1
        return DataLoader(TensorDataset(x, torch.sin(3 * x).sum(1, keepdim=True)), batch_size=self.batch_size, shuffle=True)


class Network(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))

    def training_step(self, batch, _):
        x, y = batch
        return torch.nn.functional.mse_loss(self.layers(x), y)

    def on_train_epoch_end(self):
        self.print(f"epoch {self.current_epoch} is done", flush=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_dir", default="output")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch_size", type=int, default=64)
    args = parser.parse_args()

    L.seed_everything(0)
    use_gpu = torch.cuda.is_available()
    trainer = L.Trainer(
        max_epochs=args.epochs,
        accelerator="gpu" if use_gpu else "cpu",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
        num_nodes=int(os.environ.get("WORLD_SIZE", 1)) // int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
        strategy="ddp",
        callbacks=[ModelCheckpoint(dirpath=args.output_dir, save_last=True)],
        enable_progress_bar=False,
        logger=False,
    )
    trainer.fit(Network(), datamodule=Sines(args.batch_size), ckpt_path="last")


if __name__ == "__main__":
    main()
