"""Findings and outputs of these tests are held against the schemas that ship."""

from schemas import held_to_schemas

__all__ = ["held_to_schemas"]
