"""Clusters: training on worker processes of Dask or Ray, on this machine or others."""
