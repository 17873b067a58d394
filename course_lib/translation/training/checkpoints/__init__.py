"""What a run keeps on disk: to go on from, to choose from, to average, to translate with."""
