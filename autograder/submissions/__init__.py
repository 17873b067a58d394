"""Read and repair what students submit."""
