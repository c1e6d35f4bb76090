"""Containers: what a recipe's server looks like as one, and the files that start it."""
