//! What may leave the house: secrets and personal data become typed markers. Pure.
