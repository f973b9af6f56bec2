"""Statistics of estimates: standard errors, intervals, residuals and what they tell."""
