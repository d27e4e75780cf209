"""The experiments of the heavy-ball paper, a file each; its networks are in `finitesum.papers.networks`."""
