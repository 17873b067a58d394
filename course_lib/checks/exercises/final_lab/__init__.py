"""The probes, misconceptions and files to hand in of lesson 13."""
