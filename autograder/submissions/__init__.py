"""Read and repair students' submissions."""
