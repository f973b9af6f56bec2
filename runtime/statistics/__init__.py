"""Mathematics of estimation: correlation of residuals, covariances, profiles, resampling."""
